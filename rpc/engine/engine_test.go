package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/sourcegraph/jsonrpc2"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/projection/rawjson"
	"heartbeat-mcpl/recovery"
	"heartbeat-mcpl/rpc/mcpl"
	"heartbeat-mcpl/rpc/tools"
	"heartbeat-mcpl/rpc/wire"
)

// rig is an engine on real files in fake time, with a host that the test plays. It must live in a synctest bubble.
type rig struct {
	t      *testing.T
	dir    string
	e      *Engine
	s      *Session
	host   *fakeHost
	log    *lockedBuffer
	keep   time.Duration
	step   atomic.Int64 // by how many nanoseconds the wall clock was stepped
	cancel context.CancelFunc
	ended  chan error
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, dir: t.TempDir()}
	r.start()
	return r
}

// lockedBuffer lets the test read what the engine logs while it runs.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (r *rig) start() {
	r.host, r.log = &fakeHost{}, new(lockedBuffer)
	n := 0
	e, err := Open(Options{
		Store: recovery.Options{
			Files: recovery.Files{
				Config: filepath.Join(r.dir, "config.json"), Reminders: filepath.Join(r.dir, "reminders.json"), Journal: filepath.Join(r.dir, "journal"),
			},
			Version: "test", PID: 1, Zone: "UTC", Keep: r.keep,
		},
		Zone:  time.UTC,
		Log:   slog.New(slog.NewTextHandler(r.log, nil)),
		NewID: func() string { n++; return fmt.Sprintf("%x_%d", time.Now().UnixNano(), n) },
		Wall:  func() time.Time { return time.Now().Round(0).Add(time.Duration(r.step.Load())) },
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.e, r.s = e, connect(e, r.host, "s")
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel, r.ended = cancel, make(chan error, 1)
	go func() { r.ended <- r.e.Run(ctx, func() string { return "test" }) }()
	synctest.Wait()
}

// connect opens a session of that name.
func connect(e *Engine, h *fakeHost, name string) *Session {
	h.session = e.Connect(h, Peer{Name: name})
	return h.session
}

func (r *rig) stop() {
	r.t.Helper()
	r.cancel()
	if err := <-r.ended; err != nil {
		r.t.Error(err)
	}
	synctest.Wait()
}

const grantAll = `{"effectiveCapabilities":["tools","pushEvents"]}`

func (r *rig) policy(params string) {
	r.t.Helper()
	r.s.UpdatePolicy(json.RawMessage(params), func(mcpl.Receipt, error) {})
	synctest.Wait()
}

func (r *rig) open() {
	r.t.Helper()
	r.s.Initialized(Client{Offers: mcpl.Session{MCPL: true}})
	r.policy(grantAll)
}

func (r *rig) call(tool, arguments string) tools.Reply {
	r.t.Helper()
	got := make(chan tools.Reply, 1)
	if !r.s.Call(Call{By: journal.ByTool, Tool: tool, Arguments: json.RawMessage(arguments)}, func(reply tools.Reply) { got <- reply }) {
		r.t.Fatal("the engine has ended")
	}
	return <-got
}

func (r *rig) add(arguments string) string {
	r.t.Helper()
	reply := r.call("reminder_add", arguments)
	if reply.IsError {
		r.t.Fatal(reply.Text)
	}
	return field[string](r.t, reply, "id")
}

// field is a member of a reply's structured result.
func field[T any](t *testing.T, r tools.Reply, name string) (value T) {
	t.Helper()
	if err := json.Unmarshal(rawjson.Get(r.Structured, name), &value); err != nil {
		t.Fatalf("%s of %s: %v", name, r.Structured, err)
	}
	return value
}

func (r *rig) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (r *rig) says(tool string, parts ...string) {
	r.t.Helper()
	text := r.call(tool, "").Text
	for _, p := range parts {
		if !strings.Contains(text, p) {
			r.t.Errorf("%s does not say %q: %s", tool, p, text)
		}
	}
}

func (r *rig) logged(text string, times int) {
	r.t.Helper()
	if n := strings.Count(r.log.String(), text); n != times {
		r.t.Errorf("%q is %d times in the log, want %d:\n%s", text, n, times, r.log)
	}
}

// kinds are the journal's events of some kinds, as short words.
func (r *rig) events(kinds ...journal.Kind) []journal.Event {
	r.t.Helper()
	s, err := journal.NewScanner(filepath.Join(r.dir, "journal"))
	if err != nil {
		r.t.Fatal(err)
	}
	var all []journal.Event
	for s.Next() {
		if slices.Contains(kinds, s.Event().Kind) {
			all = append(all, s.Event())
		}
	}
	return all
}

// fakeHost keeps the pushes for the test to answer.
type fakeHost struct {
	session *Session
	channel []channelParams
	reads   atomic.Uint64
	one     atomic.Bool // all calls come in one read
	mu      sync.Mutex
	all     []*fakePush
	answer  func(*fakePush) // answers at once; nil: the test does
}

type fakePush struct {
	params pushParams
	at     time.Time
	reply  func(wire.Answer)
	timer  *time.Timer
}

func (h *fakeHost) Offer(o Offer, params any, limit time.Duration) error {
	answer := func(a wire.Answer) { h.session.Outcome(o, a) }
	p := &fakePush{params: params.(pushParams), at: time.Now(), reply: answer}
	p.timer = time.AfterFunc(limit, func() { answer(wire.Answer{NoAnswer: true}) })
	h.mu.Lock()
	h.all = append(h.all, p)
	auto := h.answer
	h.mu.Unlock()
	if auto != nil {
		go auto(p)
	}
	return nil
}

func (h *fakeHost) Changed([]string) {}

func (h *fakeHost) Notify(_ string, params any) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p, is := params.(channelParams); is {
		h.channel = append(h.channel, p)
	}
	return nil
}

func (h *fakeHost) Backlog() int64 { return 0 }

// Reads says that each call came alone, or none did.
func (h *fakeHost) Reads() uint64 {
	if h.one.Load() {
		return h.reads.Load()
	}
	return h.reads.Add(1)
}

func (h *fakeHost) answerWith(f func(*fakePush)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = f
}

// pushes are those that came, which are then forgotten.
func (h *fakeHost) pushes() []*fakePush {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.all
	h.all = nil
	return all
}

// one is the only push that came.
func (r *rig) one() *fakePush {
	r.t.Helper()
	all := r.host.pushes()
	if len(all) != 1 {
		r.t.Fatalf("%d pushes came, want 1", len(all))
	}
	return all[0]
}

func (r *rig) none() {
	r.t.Helper()
	if all := r.host.pushes(); len(all) != 0 {
		r.t.Fatalf("%d pushes came, want none: %+v", len(all), all[0].params)
	}
}

func (p *fakePush) accept() {
	p.timer.Stop()
	p.reply(wire.Answer{Result: json.RawMessage(`{"accepted":true,"inferenceId":"inf_1"}`)})
	synctest.Wait()
}

func (p *fakePush) refuse(reason string) {
	p.timer.Stop()
	p.reply(wire.Answer{Result: json.RawMessage(fmt.Sprintf(`{"accepted":false,"reason":%q}`, reason))})
	synctest.Wait()
}

func (p *fakePush) fail(code int64, message string) {
	p.timer.Stop()
	p.reply(wire.Answer{Err: &jsonrpc2.Error{Code: code, Message: message}})
	synctest.Wait()
}

func (p *fakePush) late() {
	p.reply(wire.Answer{Late: true, Result: json.RawMessage(`{}`)})
	synctest.Wait()
}

func bubble(t *testing.T, f func(*testing.T, *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer func() { r.stop() }()
		f(t, r)
	})
}

func TestHeartbeatComesOncePerIntervalForDays(t *testing.T) {
	const days = 2
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		r.call("heartbeat_configure", `{"intervalHours":1}`)
		begun := time.Now()
		r.host.answerWith((*fakePush).accept1)
		for range days * 24 {
			time.Sleep(time.Hour)
		}
		synctest.Wait()
		pushes := r.host.pushes()
		if len(pushes) != days*24 {
			t.Fatalf("%d heartbeats in %d days of hours", len(pushes), days)
		}
		for i, p := range pushes {
			due := begun.Add(time.Duration(i+1) * time.Hour)
			if late := p.at.Sub(due); late < 0 || late > time.Second {
				t.Fatalf("heartbeat %d came %v after it was due", i+1, late)
			}
		}
	})
}

// accept1 answers from a goroutine of its own, without waiting for the bubble.
func (p *fakePush) accept1() {
	p.timer.Stop()
	p.reply(wire.Answer{Result: json.RawMessage(`{}`)})
}

func TestHeartbeatKeepsItsPhaseOverARestart(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		r.call("heartbeat_configure", `{"intervalHours":4}`)
		r.pass(3 * time.Hour)
		r.stop()
		r.pass(30 * time.Minute)
		r.start()
		r.open()
		r.none()
		r.pass(30*time.Minute - time.Second)
		r.none()
		r.pass(time.Second)
		r.one().accept()
	})
}

func TestHeartbeatThatIsOverdueAtTheStartWaitsForTheFirstPolicy(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		r.call("heartbeat_configure", `{"intervalHours":4}`)
		r.stop()
		r.pass(13 * time.Hour) // three are missed: they are one
		r.start()
		r.s.Initialized(Client{Offers: mcpl.Session{MCPL: true}})
		r.pass(time.Hour)
		r.none()
		r.policy(grantAll)
		p := r.one()
		p.accept()
		if !slices.Contains(p.params.Tags, "heartbeat:overdue") {
			t.Errorf("tags: %v", p.params.Tags)
		}
		r.pass(4*time.Hour - time.Second)
		r.none()
		r.pass(time.Second)
		r.one().accept()
	})
}

func TestFirstPolicyThatBlocksDropsTheWaitingHeartbeat(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.stop()
		r.pass(5 * time.Hour)
		r.start()
		r.s.Initialized(Client{Offers: mcpl.Session{MCPL: true}})
		r.policy(`{}`)
		r.policy(grantAll)
		r.none()
		r.logged("suppressed heartbeat push/event — capability not granted", 1)
	})
}

func TestBlockedHeartbeatsAreDroppedEachWithALine(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.s.Initialized(Client{Offers: mcpl.Session{MCPL: true}})
		r.pass(13 * time.Hour)
		r.logged("suppressed heartbeat push/event — no valid featureSets/update request in force", 3)
		if drops := r.events(journal.KindDrop); len(drops) != 3 {
			t.Errorf("%d drop events", len(drops))
		}
		r.policy(grantAll)
		r.none()
		r.pass(3 * time.Hour)
		r.one().accept()
	})
}

func TestMissingPolicyIsComplainedAbout(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.s.Initialized(Client{Offers: mcpl.Session{MCPL: true}})
		r.pass(time.Minute)
		r.logged("initial policy has still not arrived as a Request", 1)
	})
}

func TestClockSteps(t *testing.T) {
	for _, c := range []struct {
		name string
		step time.Duration
		wait time.Duration // the intervals of the heartbeat and the recurring reminder
	}{
		{"a suspend past several intervals is one of each", 50 * time.Hour, 0},
		{"a clock that is set back makes no interval longer", -30 * time.Hour, 4 * time.Hour},
		{"nor does a little step", -time.Minute, 4 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.open()
				r.add(`{"message":"again","everyHours":4}`)
				r.pass(time.Minute)
				r.step.Store(int64(c.step))
				if c.step < 0 {
					r.pass(c.wait - time.Minute - time.Second)
					r.none()
				}
				r.pass(time.Second)
				pushes := r.host.pushes()
				if len(pushes) != 2 {
					t.Fatalf("%d pushes", len(pushes))
				}
				for _, p := range pushes {
					p.accept()
				}
				r.pass(4 * time.Hour)
				for _, p := range r.host.pushes() {
					p.accept()
				}
			})
		})
	}
}

func TestOneShotFollowsTheWallClock(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		r.call("heartbeat_configure", `{"paused":true}`)
		r.add(`{"message":"at ten","inHours":10}`)
		r.step.Store(int64(-time.Hour))
		r.pass(10*time.Hour + 30*time.Minute)
		r.none()
		r.pass(31 * time.Minute)
		r.one().accept()
	})
}

func TestClockThatWasSetBackWhileNoServerRan(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		r.call("heartbeat_configure", `{"intervalHours":4}`)
		r.stop()
		r.step.Store(int64(-100 * time.Hour))
		r.start()
		r.open()
		r.pass(4*time.Hour + time.Second)
		r.one().accept()
	})
}

func TestUnansweredPushIsTriedAgainUnderItsID(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		id := r.add(`{"message":"once","inSeconds":1}`)
		r.pass(time.Second)
		first := r.one()
		r.pass(30 * time.Second)
		r.says("reminder_list", id, "no answer within 30 s | 1 try, next in ~3", "tried again")
		r.pass(30*time.Second - time.Millisecond)
		r.none()
		r.policy(grantAll)
		again := r.one()
		if again.params.EventID != first.params.EventID {
			t.Errorf("event id %s, want %s", again.params.EventID, first.params.EventID)
		}
		first.late()
		r.says("reminder_list", "No reminders set.")
		again.refuse("duplicate")
		acks := r.events(journal.KindAck)
		if len(acks) != 1 || !acks[0].Body.(*journal.Ack).Late {
			t.Errorf("acks: %+v", acks)
		}
	})
}

func TestRefusedOnesWaitForAReason(t *testing.T) {
	for _, c := range []struct {
		name  string
		again func(*rig)
	}{
		{"a policy update", func(r *rig) { r.policy(grantAll) }},
		{"reminder_add", func(r *rig) { r.add(`{"message":"x","inHours":9}`) }},
		{"reminder_cancel", func(r *rig) {
			other := r.add(`{"message":"x","inHours":9}`)
			synctest.Wait()
			r.one().refuse("not now")
			r.call("reminder_cancel", fmt.Sprintf(`{"id":%q}`, other))
		}},
		{"a restart", func(r *rig) { r.stop(); r.start(); r.open() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.open()
				r.add(`{"message":"once","inSeconds":0}`)
				synctest.Wait()
				first := r.one()
				first.fail(-32603, "broken")
				r.pass(30*time.Second - time.Millisecond)
				r.none()
				c.again(r)
				synctest.Wait()
				again := r.one()
				if again.params.EventID == first.params.EventID {
					t.Error("refused, and tried again under the same event id")
				}
				r.says("reminder_list", "refused by the host at") // until it is taken
				r.stop()
				r.start()
				r.says("reminder_list", "refused by the host at")
				r.open()
				synctest.Wait()
				again = r.one()
				again.accept()
			})
		})
	}
}

// TestPushesOfMessagesFollowTheRulesOfReminders: event ids, duplicates and late answers, across restarts (SPEC 6.6, 12.5).
func TestPushesOfMessagesFollowTheRulesOfReminders(t *testing.T) {
	unread := []projection.Letter{{ID: "msg_1", From: "b", Text: "hello", SentMs: 1}}
	restart := func(r *rig) {
		r.stop()
		r.start()
		r.open()
		r.e.Letters("", unread)
		synctest.Wait()
	}
	for how, settle := range map[string]func(third, fourth *fakePush){
		"a late answer":           func(third, _ *fakePush) { third.late() },
		"a refusal as duplicates": func(_, fourth *fakePush) { fourth.refuse("duplicate") },
	} {
		bubble(t, func(t *testing.T, r *rig) {
			r.open()
			r.e.Letters("", unread)
			synctest.Wait()
			first := r.one()
			first.refuse("duplicate wakes are not wanted") // it was never sent before: that is no duplicate
			r.pass(30*time.Second - time.Millisecond)
			r.none()
			restart(r)
			second := r.one()
			if second.params.EventID == first.params.EventID {
				t.Error("refused, and pushed again under the same event id after a restart")
			}
			restart(r)
			third := r.one()
			if third.params.EventID != second.params.EventID {
				t.Errorf("never answered, and pushed again under another event id: %s, %s", second.params.EventID, third.params.EventID)
			}
			r.pass(time.Minute - time.Millisecond) // 30 s without an answer, and the pause
			r.none()
			r.pass(4 * time.Second)
			fourth := r.one()
			if fourth.params.EventID != third.params.EventID {
				t.Errorf("not answered in time, and pushed again as %s", fourth.params.EventID)
			}
			settle(third, fourth)
			r.pass(time.Minute)
			restart(r)
			r.pass(time.Hour)
			r.none()
			var kinds []string
			for _, e := range r.events(journal.KindTell, journal.KindRefuse, journal.KindTold) {
				kinds = append(kinds, e.Kind.String())
			}
			if want := []string{"tell", "refuse", "tell", "tell", "refuse", "tell", "told"}; !slices.Equal(kinds, want) {
				t.Errorf("%s: events %v, want %v", how, kinds, want)
			}
			r.says("wake_history", "1 wake(s)", "message from b | taken", "4 pushes")
		})
	}
}

// TestMessageIsPolledUnderTheIdOfItsPush, never under one that was refused.
func TestMessageIsPolledUnderTheIdOfItsPush(t *testing.T) {
	unread := []projection.Letter{{ID: "msg_1", From: "b", Text: "hello", SentMs: 1}}
	polled := func(r *rig) string {
		var events []polledEvent
		if err := json.Unmarshal([]byte(r.call("get_proactive_events", "").Text), &events); err != nil || len(events) != 1 {
			r.t.Fatalf("%+v, %v", events, err)
		}
		return events[0].EventID
	}
	bubble(t, func(t *testing.T, r *rig) {
		r.e.Letters("", unread)
		before := polled(r)
		r.open()
		first := r.one()
		if first.params.EventID != before {
			t.Errorf("polled as %s, and pushed as %s", before, first.params.EventID)
		}
		first.refuse("busy")
		after := polled(r)
		if after == before {
			t.Error("offered under the id that was refused")
		}
		r.policy(grantAll)
		if second := r.one(); second.params.EventID != after {
			t.Errorf("polled as %s, and pushed as %s", after, second.params.EventID)
		}
		if reply := r.call("acknowledge_events", fmt.Sprintf(`{"event_ids":[%q]}`, before)); field[int](t, reply, "acked") != 1 {
			t.Errorf("the id that it had before is not known: %s", reply.Text)
		}
	})
}

func TestMessageThatIsReadBeforeItIsTaken(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		r.e.Letters("", []projection.Letter{{ID: "msg_1", From: "b", SentMs: 1}})
		synctest.Wait()
		push := r.one()
		push.refuse("busy")
		r.e.LettersRead("", []string{"msg_1", "msg_other"})
		r.e.Letters("", []projection.Letter{{ID: "msg_1", From: "b", SentMs: 1}}) // a list from before
		r.pass(time.Hour)
		r.none()
		r.says("wake_history", "1 wake(s)", "message from b | cancelled", "busy")
		if read := r.events(journal.KindRead); len(read) != 1 || len(read[0].Body.(*journal.Read).IDs) != 1 {
			t.Errorf("%+v", read)
		}

		// A late answer to an earlier push of one that was taken and read is no second wake; one that says that it was taken after all is.
		r.e.Letters("", []projection.Letter{{ID: "msg_2", From: "c", SentMs: 1}})
		r.pass(64 * time.Second)
		pushes := r.host.pushes()
		if len(pushes) != 2 {
			t.Fatalf("%d pushes", len(pushes))
		}
		pushes[1].accept()
		r.e.LettersRead("", []string{"msg_2"})
		pushes[0].late()
		r.e.Letters("", []projection.Letter{{ID: "msg_3", From: "d", SentMs: 1}})
		synctest.Wait()
		read := r.one()
		r.e.LettersRead("", []string{"msg_3"})
		read.accept()
		if told := r.events(journal.KindTold); len(told) != 2 {
			t.Errorf("told %d times: %+v", len(told), told)
		}
		r.says("wake_history", "3 wake(s)", "message from c | taken", "message from d | taken")
	})
}

func TestMissedSlotsOfARecurringOneAreOne(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.s.Initialized(Client{Offers: mcpl.Session{MCPL: true}})
		r.add(`{"message":"again","everyMinutes":10}`)
		r.pass(65 * time.Minute)
		r.says("reminder_list", "(overdue)", "Reminders that are due wait")
		r.policy(grantAll)
		r.one().accept()
		r.pass(5*time.Minute - time.Second)
		r.none()
		r.pass(time.Second)
		r.one().accept()
	})
}

func TestCancelWhileAPushIsOutIsFinal(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		id := r.add(`{"message":"once","inSeconds":0}`)
		synctest.Wait()
		p := r.one()
		r.call("reminder_cancel", fmt.Sprintf(`{"id":%q}`, id))
		p.refuse("busy")
		r.policy(grantAll)
		r.none()
		r.says("reminder_list", "No reminders set.")
	})
}

func TestChangeOfIntervalOrPauseFiresNothingForThePast(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		r.pass(3 * time.Hour)
		r.call("heartbeat_configure", `{"intervalHours":1}`)
		r.pass(time.Hour - time.Second)
		r.none()
		r.pass(time.Second)
		r.one().accept()
		r.call("heartbeat_configure", `{"paused":true}`)
		r.pass(5 * time.Hour)
		r.none()
		r.call("heartbeat_configure", `{"paused":false}`)
		r.pass(time.Hour - time.Second)
		r.none()
		r.pass(time.Second)
		r.one().accept()
	})
}

func TestSilentModeTriesSilentFirstEachTime(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		r.call("heartbeat_configure", `{"deliveryMode":"silent","intervalHours":1}`)
		for i, refuse := range []func(*fakePush){
			func(p *fakePush) { p.fail(-32602, "invalid params") },
			func(p *fakePush) { p.refuse("Empty content") },
		} {
			r.pass(time.Hour)
			p := r.one()
			if !p.params.Origin.Silent || len(p.params.Payload.Content) != 0 {
				t.Fatalf("tick %d: %+v", i, p.params)
			}
			refuse(p)
			loud := r.one()
			if !loud.params.Origin.SilentFallback || loud.params.Origin.Silent || len(loud.params.Payload.Content) != 1 {
				t.Fatalf("fallback %d: %+v", i, loud.params)
			}
			loud.accept()
		}
		r.pass(time.Hour)
		r.one().fail(-32603, "another failure is no reason")
		r.none()
		r.logged("the host refused a silent heartbeat", 1)
		r.says("heartbeat_status", "mode=silent (the host refused a silent wake")
	})
}

func TestThousandDueAtOnceAreAllJournalledBeforeTheyLeave(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.s.Initialized(Client{Offers: mcpl.Session{MCPL: true}})
		for range 1500 {
			r.add(`{"message":"x","inSeconds":1}`)
		}
		r.pass(time.Second)
		r.host.answerWith((*fakePush).accept1)
		r.policy(grantAll)
		r.pass(time.Second)
		if n := len(r.host.pushes()); n != 1500 {
			t.Errorf("%d pushes", n)
		}
		if fires, acks := len(r.events(journal.KindFire)), len(r.events(journal.KindAck)); fires != 1500 || acks != 1500 {
			t.Errorf("%d fires and %d acks in the journal", fires, acks)
		}
	})
}

func TestLongListIsPagedSoonestFirst(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		var soonest []string
		for i := range 7 {
			id := r.add(fmt.Sprintf(`{"message":"x","inMinutes":%d}`, 60-i))
			soonest = append([]string{id}, soonest...)
		}
		var listed []string
		for page, more := range []int{4, 1, 0} {
			after := ""
			if page > 0 {
				after = fmt.Sprintf(`,"after":%q`, listed[len(listed)-1])
			}
			reply := r.call("reminder_list", `{"limit":3`+after+`}`)
			if got := field[int](t, reply, "more"); got != more {
				t.Errorf("page %d: %v more, want %d", page, got, more)
			}
			if said := strings.Contains(reply.Text, fmt.Sprintf("And %d more", more)); said != (more > 0) {
				t.Errorf("page %d: %s", page, reply.Text)
			}
			for _, line := range strings.Split(reply.Text, "\n") {
				for _, id := range soonest {
					if strings.Contains(line, id) && !strings.Contains(line, "call reminder_list") {
						listed = append(listed, id)
					}
				}
			}
		}
		if !slices.Equal(listed, soonest) {
			t.Errorf("listed %v, want %v", listed, soonest)
		}
		r.call("reminder_cancel", fmt.Sprintf(`{"id":%q}`, soonest[2]))
		r.says("reminder_list", "6 reminder(s):")
		if reply := r.call("reminder_list", fmt.Sprintf(`{"after":%q}`, soonest[2])); !reply.IsError || !strings.Contains(reply.Text, "without after") {
			t.Errorf("after one that is gone: %+v", reply)
		}
	})
}

// TestChangeThatCannotBeJournalledIsSaidAndSavedLater takes the journal's folder away for a while (SPEC 3.7).
func TestChangeThatCannotBeJournalledIsSaidAndSavedLater(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		dir, away := filepath.Join(r.dir, "journal"), filepath.Join(r.dir, "away")
		r.add(`{"message":"before","inHours":1}`)
		if err := os.Rename(dir, away); err != nil {
			t.Fatal(err)
		}
		reply := r.call("reminder_add", `{"message":"meanwhile","inHours":2}`)
		if !strings.Contains(reply.Text, "This change is not saved") || field[bool](t, reply, "saved") {
			t.Errorf("got %q, %s", reply.Text, reply.Structured)
		}
		r.says("reminder_list", "meanwhile", "Earlier changes are not saved")
		if err := os.Rename(away, dir); err != nil {
			t.Fatal(err)
		}
		r.pass(31 * time.Second)
		r.logged("saved: the journal can be written again", 1)
		if text := r.call("reminder_list", "").Text; strings.Contains(text, "not saved") {
			t.Errorf("still: %s", text)
		}
		adds := r.events(journal.KindAdd)
		if len(adds) != 2 || adds[1].Body.(*journal.Add).Message != "meanwhile" {
			t.Errorf("adds: %+v", adds)
		}
	})
}

// TestOldSegmentsAreRemovedAndTheStateStays: what is older than HEARTBEAT_KEEP goes once a snapshot covers it, and the
// next start needs no more than what is left (SPEC 9.4).
func TestOldSegmentsAreRemovedAndTheStateStays(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.stop()
		r.keep = time.Hour
		r.start()
		r.open()
		r.call("heartbeat_configure", `{"paused":true}`)
		kept := r.add(`{"message":"kept","inHours":1000}`)
		text := strings.Repeat("x", 60_000)
		for range 3 {
			for range 40 {
				id := r.add(fmt.Sprintf(`{"message":%q,"inHours":1000}`, text))
				r.call("reminder_cancel", fmt.Sprintf(`{"id":%q}`, id))
			}
			r.pass(2 * time.Hour)
		}
		r.stop()
		all := r.events(journal.KindAdd)
		if len(all) > 80 {
			t.Errorf("%d of 121 adds are still in the journal", len(all))
		}
		r.start()
		r.open()
		r.says("reminder_list", "1 reminder(s):", kept)
		r.says("heartbeat_status", "PAUSED")
	})
}

func TestIdleEngineWritesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		r.add(`{"message":"far","inHours":1000}`)
		r.call("heartbeat_configure", `{"paused":true}`)
		r.pass(time.Second)
		before := r.files()
		r.pass(2 * time.Hour)
		if after := r.files(); after != before {
			t.Errorf("before\n%s\nafter\n%s", before, after)
		}
	})
}

// files is what lies in the folder, with sizes and times.
func (r *rig) files() string {
	var b strings.Builder
	err := filepath.Walk(r.dir, func(path string, info os.FileInfo, err error) error {
		if err == nil {
			fmt.Fprintln(&b, path, info.Size(), info.ModTime())
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return b.String()
}

func TestTimeBefore1970FiresAtOnceAndKeepsTheViewReadable(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		id := r.add(`{"message":"moon","atIso":"1960-01-01T00:00:00Z"}`)
		r.stop()
		r.start()
		r.logged("unreadable", 0)
		r.open()
		if p := r.one(); p.params.Origin.ReminderID != id {
			t.Errorf("%+v", p.params)
		}
	})
}

func TestOnlyARefusalOfEmptyContentMakesASilentHeartbeatSpeak(t *testing.T) {
	for reason, want := range map[string]bool{
		"empty": true, "empty_content": true, "the content is empty": true, "content must not be empty": true, "no content": true,
		"Empty payload": true, "queue not empty": false, "budget is empty": false, "busy": false, "": false,
	} {
		if got := (outcome{reason: reason}).empty(); got != want {
			t.Errorf("%q: %v", reason, got)
		}
	}
	if !(outcome{code: -32602, reason: "whatever"}).empty() || (outcome{code: -32000, reason: "empty content"}).empty() {
		t.Error("of the error codes only -32602 means that the content is missing")
	}
}

// validated holds a reply against the tool's declared schema.
func validated(t *testing.T, tool string, r tools.Reply) {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal(tools.Find(tool).OutputSchema(), &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	var content any
	if err := json.Unmarshal(r.Structured, &content); err != nil {
		t.Fatalf("%s cannot be read: %v", r.Structured, err)
	}
	if err := resolved.Validate(content); err != nil {
		t.Errorf("%s: %v in %s", tool, err, r.Structured)
	}
}

func TestWakeHistoryTellsWhatHappenedNewestFirst(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		if text := r.call("wake_history", "").Text; text != "No wakes in the journal." {
			t.Errorf("of nothing: %s", text)
		}
		r.open()
		gone := r.add(`{"message":"tea","inSeconds":10}`)
		r.pass(10 * time.Second)
		r.one().refuse("busy\nnow")
		r.policy(grantAll)
		r.one().accept()
		r.add(`{"message":"pulse","everySeconds":60}`)
		for range 3 {
			r.pass(time.Minute)
			r.one().accept()
		}
		r.call("heartbeat_trigger", "")
		synctest.Wait()
		r.one().refuse("no budget")
		all := r.call("wake_history", `{"limit":3}`)
		lines := strings.Split(all.Text, "\n")
		if len(lines) != 5 || lines[0] != "3 wake(s), newest first:" || !strings.Contains(lines[1], "| heartbeat | refused, asked for |") ||
			!strings.Contains(lines[1], "no budget") || !strings.Contains(lines[2], `| taken | due `) || !strings.HasSuffix(lines[2], `| "pulse"`) ||
			!strings.HasPrefix(lines[4], "There are older ones") || !field[bool](t, all, "more") {
			t.Errorf("%s", all.Text)
		}
		validated(t, "wake_history", all)
		one := r.call("wake_history", fmt.Sprintf(`{"id":%q}`, gone))
		if !strings.Contains(one.Text, "1 wake(s)") || !strings.Contains(one.Text, `| taken | due `) || !strings.Contains(one.Text, `2 pushes | busy\nnow | "tea"`) {
			t.Errorf("of one that is gone: %s", one.Text)
		}
		since := time.Now().Add(-70 * time.Second).UTC().Format(time.RFC3339)
		if text := r.call("wake_history", fmt.Sprintf(`{"since":%q}`, since)).Text; !strings.Contains(text, "3 wake(s)") {
			t.Errorf("since a time: %s", text)
		}
		for arguments, want := range map[string]string{
			`{"limit":0}`: "limit must be a whole number from 1 to 200, and is 0", `{"limit":2.5}`: "whole number", `{"limit":"five"}`: "limit must be a number, not a text",
			`{"limit":201,"since":"x"}`: "and is 201; since \"x\"",
		} {
			if reply := r.call("wake_history", arguments); !reply.IsError || !strings.Contains(reply.Text, want) {
				t.Errorf("%s: %s", arguments, reply.Text)
			}
		}
	})
}

// TestWakeHistoryOfOneMillisecondIsInTheOrderOfTheJournal: many wakes are taken within one.
func TestWakeHistoryOfOneMillisecondIsInTheOrderOfTheJournal(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		for i := range 20 {
			r.add(fmt.Sprintf(`{"message":"%d","inSeconds":1}`, i))
		}
		r.pass(time.Second)
		pushes := r.host.pushes()
		slices.Reverse(pushes)
		for _, p := range pushes {
			p.accept()
		}
		acks := r.events(journal.KindAck)
		var wakes []struct{ ReminderID string }
		if err := json.Unmarshal(rawjson.Get(r.call("wake_history", `{"limit":20}`).Structured, "wakes"), &wakes); err != nil || len(wakes) != len(acks) {
			t.Fatal(err, len(wakes))
		}
		for i, w := range wakes {
			if want := acks[len(acks)-1-i].Reminder(); w.ReminderID != want {
				t.Fatalf("wake %d is of %s, want %s", i, w.ReminderID, want)
			}
		}
	})
}

func TestTimeZeroIsATimeInReplies(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.stop()
		if err := os.RemoveAll(filepath.Join(r.dir, "journal")); err != nil {
			t.Fatal(err)
		}
		r.write("reminders.json", `[{"id":"a","message":"m","createdAt":0,"fireAt":"1970-01-01T00:00:00Z","everySeconds":null}]`)
		r.start()
		for tool, zero := range map[string]string{"reminder_list": `"1970-01-01T00:00:00+00:00"`, "get_context": `"1970-01-01T00:00:00.000Z"`} {
			reply := r.call(tool, "")
			validated(t, tool, reply)
			if !strings.Contains(string(reply.Structured), zero) {
				t.Errorf("%s: %s", tool, reply.Structured)
			}
		}
	})
}

// TestEditIsSeenByTheNextCall: however soon after a reply somebody edits, in fake time in the same instant.
func TestEditIsSeenByTheNextCall(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for _, id := range []string{"one", "other", "third"} {
			r.pass(time.Second) // no view is being written
			r.call("heartbeat_status", "")
			r.write("reminders.json", `[{"id":"`+id+`","message":"m","createdAt":1,"fireAt":4000000000000,"everySeconds":null}]`)
			r.says("reminder_list", id)
		}
	})
}

// TestEditThatACallFindsIsShownSoon: also when the call was answered beside the loop, which would rest for a second (SPEC 2.3).
func TestEditThatACallFindsIsShownSoon(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.pass(time.Second)
		r.write("reminders.json", `[{"id":"one","message":"m","createdAt":1,"fireAt":4000000000000,"everySeconds":null}]`)
		r.says("reminder_list", "one")
		r.pass(200 * time.Millisecond)
		if text, err := os.ReadFile(filepath.Join(r.dir, "reminders.json")); err != nil || !bytes.Contains(text, []byte(`"journalIndex"`)) {
			t.Errorf("the view is not written anew: %s, %v", text, err)
		}
	})
}

func (r *rig) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func TestEditJustBeforeTheEndIsInTheJournal(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.pass(time.Second)
		r.write("config.json", `{"intervalSeconds":60,"paused":3}`)
		r.stop()
		edits := r.events(journal.KindConfigure)
		if len(edits) != 1 || *edits[0].Body.(*journal.Configure).IntervalMs != 60_000 {
			t.Errorf("got %+v", edits)
		}
		r.start()
	})
}

// TestReadsKeepTheOrderOfCalls: what only reads may be answered beside the loop, but shows all that was asked for before it.
func TestReadsKeepTheOrderOfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		const times = 300
		replies := make(chan tools.Reply, 2*times)
		for range times {
			for _, c := range [][2]string{{"reminder_add", `{"message":"m","inSeconds":60}`}, {"heartbeat_status", ""}} {
				if !r.s.Call(Call{By: journal.ByTool, Tool: c[0], Arguments: json.RawMessage(c[1])}, func(reply tools.Reply) { replies <- reply }) {
					t.Fatal("the engine has ended")
				}
			}
		}
		for i := range times {
			added, status := <-replies, <-replies
			if added.IsError || field[int](t, status, "reminders") != i+1 {
				t.Fatalf("after add %d: %s; then %s", i+1, added.Text, status.Text)
			}
		}
		r.stop()
		if r.s.Call(Call{By: journal.ByTool, Tool: "heartbeat_status"}, func(tools.Reply) { t.Error("answered out of a closed journal") }) {
			t.Error("a call was taken after the end")
		}
	})
}
