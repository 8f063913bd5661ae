package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
)

// scene is the story of the picture and the sample in the documentation: a day with a few reminders, a host that refuses, a
// crash, and wakes that come late. It is the same on every machine. Reminders that say others come on top of it: each is taken
// once, and scheduled again.
func scene(t *testing.T, others ...string) *audit {
	t.Helper()
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	d := &day{zone: zone, history: projection.NewHistory(), state: projection.New()}
	const hour, message = int64(3600_000), "Look around: does anything need you?"
	d.at("07:58:00", &journal.Begin{})
	d.at("07:58:00.120", &journal.Start{PID: 411, Version: "0.2.0", Zone: zone.String()})
	d.at("08:00:00", &journal.Configure{By: journal.ByTool, IntervalMs: new(hour), Message: new(message), Reanchor: true})
	d.add("08:01:10", "rem_dentist4k2m", "Call the dentist about Friday", journal.ByTool, d.ms("10:00:00"), 0, "")
	d.add("08:01:40", "rem_water8x1pq3", "Drink some water and stretch", journal.ByTool, d.ms("10:00:30"), 2*hour, "")
	d.add("08:02:05", "rem_standup7h2c", "Stand-up with the team", journal.ByTool, d.ms("09:00:00"), 0, "0 9 * * 1-5")
	d.add("08:03:30", "rem_plants9v3td", "Water the plants", journal.ByTool, d.ms("16:00:00"), 0, "")
	d.add("08:04:00", "rem_photos2w6bz", "Send Mia the photos of the garden", journal.ByCLI, d.ms("12:30:00"), 0, "")
	d.add("08:05:20", "rem_bill5n8rj4k", "Pay the electricity bill", journal.ByFile, d.ms("09:00:00")+72*hour, 0, "")
	d.taken("rem_standup7h2c", "09:00:00", "09:00:00.004", d.ms("09:00:00")+24*hour)
	d.taken("", "09:00:00", "09:00:00.006", 0)
	d.taken("rem_dentist4k2m", "10:00:00", "10:00:00.003", 0)
	d.taken("", "10:00:00", "10:00:00.005", 0)
	d.taken("rem_water8x1pq3", "10:00:30", "10:00:30.002", d.ms("12:00:30"))
	d.taken("", "11:00:00", "11:00:00.004", 0)
	d.at("11:31:15", &journal.Cancel{ID: "rem_plants9v3td", By: journal.ByCLI})
	d.taken("", "12:00:00", "12:00:00.005", 0)
	d.taken("rem_water8x1pq3", "12:00:30", "12:00:30.003", d.ms("14:00:30"))
	d.refused("rem_photos2w6bz", "12:30:00", "12:30:00.002", "the budget for this hour is used up")
	d.refused("rem_photos2w6bz", "12:30:00", "12:45:00.002", "the budget for this hour is used up")
	d.taken("rem_photos2w6bz", "12:30:00", "13:00:03.120", 0)
	d.taken("", "13:00:00", "13:00:00.004", 0)
	d.add("13:06:00", "rem_tea6f4yhd2s", "The tea is ready", journal.ByTool, d.ms("13:10:00"), 0, "")
	d.fire("rem_tea6f4yhd2s", "13:10:00", "13:10:00.001") // the server crashes before the host answers
	d.at("13:52:20", &journal.Start{PID: 977, Version: "0.2.0", Zone: zone.String()})
	d.taken("rem_tea6f4yhd2s", "13:10:00", "13:52:20.410", 0)
	d.at("14:00:00.001", &journal.Drop{Due: d.ms("14:00:00"), Reason: "the host said that wakes are off"})
	d.taken("rem_water8x1pq3", "14:00:30", "14:07:11.300", d.ms("16:00:30"))
	d.taken("", "15:00:00", "15:00:00.005", 0)
	d.taken("", "16:00:00", "16:00:00.004", 0)
	d.taken("rem_water8x1pq3", "16:00:30", "16:00:30.002", d.ms("18:00:30"))
	d.add("16:20:00", "rem_key3c9mgt7a", "Ask Tom for the spare key", journal.ByTool, d.ms("17:00:00"), 0, "")
	d.refused("rem_key3c9mgt7a", "17:00:00", "17:00:00.002", "the user is in a call")
	d.taken("", "17:00:00", "17:00:00.006", 0)
	for i, message := range others {
		id := fmt.Sprintf("rem_other%03d", i)
		d.add("17:01:00", id, message, journal.ByTool, d.ms("17:02:00"), hour, "")
		d.taken(id, "17:02:00", "17:02:00.004", d.ms("18:02:00"))
	}
	d.history.Finish(d.state, d.ms("17:20:00"))
	return newReport("heartbeat-journal", zone, d.history.Report(projection.Filter{}), nil)
}

// day writes the events of a scene.
type day struct {
	zone    *time.Location
	history *projection.History
	state   *projection.State
	index   uint64
	events  int // pushes so far
}

// ms is a time of the scene's day.
func (d *day) ms(clock string) int64 {
	at, err := time.ParseInLocation("2006-01-02 15:04:05", "2026-10-12 "+clock, d.zone)
	if err != nil {
		panic(err)
	}
	return at.UnixMilli()
}

func (d *day) at(clock string, body journal.Body) { d.apply(d.ms(clock), body) }

func (d *day) apply(ms int64, body journal.Body) {
	d.index++
	e := journal.Event{Index: d.index, Time: ms, Kind: body.Kind(), Body: body}
	d.state.Apply(e)
	d.history.Apply(e)
}

func (d *day) add(clock, id, message string, by journal.Source, due, every int64, cron string) {
	a := &journal.Add{ID: id, Message: message, By: by, CreatedAt: d.ms(clock), FireAt: due, EveryMs: every}
	if cron != "" {
		a.Cron, a.Zone = cron, d.zone.String()
	}
	d.at(clock, a)
}

// fire sends a push, and is its event id.
func (d *day) fire(id, due, sent string) string {
	d.events++
	event := fmt.Sprintf("evt_%012d", d.events)
	d.at(sent, &journal.Fire{ID: id, EventID: event, Due: d.ms(due)})
	return event
}

// taken is a push that the host takes a little later.
func (d *day) taken(id, due, at string, next int64) {
	const answer = 3
	d.apply(d.ms(at)+answer, &journal.Ack{ID: id, EventID: d.fire(id, due, at), Next: next})
}

func (d *day) refused(id, due, at, reason string) {
	d.at(at, &journal.Refuse{ID: id, EventID: d.fire(id, due, at), Code: -32000, Reason: reason})
}

// auditSample is what `audit` prints of the scene.
func auditSample(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	if err := printAudit(ui{out: &b}, scene(t), usualWidth); err != nil {
		t.Fatal(err)
	}
	return "```text\n$ heartbeat-mcpl audit\n" + b.String() + "```"
}
