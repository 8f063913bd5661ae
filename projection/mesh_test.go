package projection

import (
	"fmt"
	"slices"
	"testing"

	"heartbeat-mcpl/journal"
)

// talk folds bodies at seconds of the test's choice.
type talk struct {
	m     *Mesh
	index uint64
}

func (k *talk) at(second int64, bodies ...journal.Body) {
	for _, b := range bodies {
		k.index++
		k.m.Apply(journal.Event{Index: k.index, Time: second * 1000, Kind: b.Kind(), Body: b})
	}
}

func present(agent string, ttl int64, status string) *journal.Present {
	return &journal.Present{Agent: agent, TTLMs: ttl * 1000, Status: status}
}

func TestPresenceIsRenewedAndEndsByItself(t *testing.T) {
	k := &talk{m: NewMesh()}
	k.at(0, present("a", 60, "x"), present("b", 60, ""))
	k.at(50, &journal.Touch{Agent: "a"})
	here := func(second int64) string {
		var names []string
		for _, a := range k.m.Agents(second * 1000) {
			names = append(names, a.ID)
		}
		return fmt.Sprint(names)
	}
	if got := here(60); got != "[a b]" {
		t.Errorf("at 60: %s", got)
	}
	if got := here(61); got != "[a]" {
		t.Errorf("b's silence is too long at 61: %s", got)
	}
	k.at(100, &journal.Touch{Agent: "b"}) // too late: only a check-in brings it back
	if got := here(105); got != "[a]" {
		t.Errorf("at 105: %s", got)
	}
	k.at(105, present("a", 60, "x"))
	if a, _ := k.m.Agent("a", 105_000); a.StatusMs != 0 || a.SinceMs != 0 {
		t.Errorf("a renewal changed the age of what did not change: %+v", a)
	}
	k.at(106, present("a", 60, "y"))
	if a, _ := k.m.Agent("a", 106_000); a.StatusMs != 106_000 {
		t.Errorf("the age of a new status: %+v", a)
	}
}

func TestAnInboxHoldsWhatCameSinceTheCheckIn(t *testing.T) {
	k := &talk{m: NewMesh()}
	ids := func(agent string) []string {
		all := []string{}
		for _, l := range k.m.Inbox(agent) {
			all = append(all, l.ID)
		}
		return all
	}
	k.at(0, &journal.Message{ID: "m0", From: "a", To: []string{"b"}})
	k.at(1, present("b", 60, ""))
	k.at(2, &journal.Message{ID: "m1", From: "a", To: []string{"b", "c"}}, &journal.Message{ID: "m2", From: "a", To: []string{"b"}})
	k.at(30, present("b", 60, ""))
	if got := ids("b"); !slices.Equal(got, []string{"m1", "m2"}) {
		t.Errorf("after a renewal: %v", got)
	}
	k.at(31, &journal.Read{Agent: "b", IDs: []string{"m1", "none"}})
	if got := ids("b"); !slices.Equal(got, []string{"m2"}) {
		t.Errorf("after an ack: %v", got)
	}
	k.at(200, &journal.Message{ID: "m3", From: "a", To: []string{"b"}}) // b is stale
	k.at(201, present("b", 60, ""))
	if got := ids("b"); len(got) != 0 {
		t.Errorf("a presence that begins anew begins with %v", got)
	}
	for i := range MostInbox + 5 {
		k.at(202, &journal.Message{ID: fmt.Sprint("n", i), From: "a", To: []string{"b"}})
	}
	if got := ids("b"); len(got) != MostInbox || got[0] != "n0" {
		t.Errorf("%d in a full inbox, the first is %s", len(got), got[0])
	}
}

func TestMeshSnapshotsReadBack(t *testing.T) {
	k := &talk{m: NewMesh()}
	k.at(1, present("a", 60, "busy"), present("b", 600, ""))
	k.at(2, &journal.Message{ID: "m1", From: "a", To: []string{"b"}, Text: "x"})
	bodies, err := k.m.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var parts []journal.Event
	for i, b := range bodies {
		parts = append(parts, journal.Event{Index: 10 + uint64(i), Time: 3000, Kind: b.Kind(), Body: b})
	}
	m, err := LoadMesh(parts)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(m.Agents(3000), m.Inbox("b")) != fmt.Sprint(k.m.Agents(3000), k.m.Inbox("b")) || m.Index != 10 {
		t.Errorf("%v %v", m.Agents(3000), m.Inbox("b"))
	}
}
