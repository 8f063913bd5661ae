package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/projection/rawjson"
	"heartbeat-mcpl/recovery"
	"heartbeat-mcpl/rpc/text"
	"heartbeat-mcpl/rpc/tools"
)

// entry is one wake of a history.
type entry struct {
	subject *projection.Subject
	wake    *projection.Wake
}

// wakeHistory answers wake_history (SPEC 5.7). The journal is read beside the loop, from its end backwards.
func (e *Engine) wakeHistory(arguments json.RawMessage, answer func(reply)) {
	args, notes, err := tools.ParseHistory(arguments, e.o.Wall(), e.o.Zone)
	if err != nil {
		answer(refusal(err))
		return
	}
	go func() {
		r := e.historyReply(args, notes, e.openMessages)
		if !e.do(func() { answer(r) }) {
			answer(reply{isError: true, text: "The server is ending."})
		}
	}()
}

// historyOfFiles is the same where no loop runs, out of the state that was peeked at.
func (e *Engine) historyOfFiles(arguments json.RawMessage) reply {
	args, notes, err := tools.ParseHistory(arguments, e.o.Wall(), e.o.Zone)
	if err != nil {
		return refusal(err)
	}
	return e.historyReply(args, notes, func(found []entry) bool { return nameOpen(found, e.state()) })
}

func (e *Engine) historyReply(args tools.HistoryArgs, notes []string, complete func([]entry) bool) reply {
	found, more, err := readHistory(e.o.Store.Journal, args, complete)
	if err != nil {
		return reply{notes: notes, isError: true, text: fmt.Sprintf("The history cannot be read (%v).", err)}
	}
	return reply{notes: notes, text: historyText(found, more, args, e.o.Zone), data: historyData(found, more)}
}

// openMessages gives the wakes of open reminders their messages, and says whether all have one now. Call it beside the
// loop.
func (e *Engine) openMessages(found []entry) bool {
	all := true
	ended := !e.await(func(done func()) {
		defer done()
		all = nameOpen(found, e.state())
	})
	return ended || all
}

// nameOpen gives the wakes of the state's open reminders their messages, and says whether all have one now.
func nameOpen(found []entry, state *projection.State) bool {
	all := true
	for _, f := range found {
		if f.subject.ReminderID() == "" || f.subject.Message != "" {
			continue
		}
		if state != nil {
			if r, ok := state.Reminder(f.subject.ID); ok {
				f.subject.Message = r.Message
				continue
			}
		}
		all = false
	}
	return all
}

// readHistory reads as much of the journal as the wakes that are asked for need; then, where the message of a reminder that
// is gone is missing, more of it.
func readHistory(dir string, args tools.HistoryArgs, complete func([]entry) bool) (found []entry, more bool, err error) {
	enough := func(h *projection.History) bool {
		f := newest(h, args)
		return len(f) > args.Limit || args.Since != nil && int64(h.First) < args.Since.UnixMilli()
	}
	for _, strict := range []bool{false, true} {
		h, err := recovery.RecentWakes(dir, func(h *projection.History) bool {
			return enough(h) && (!strict || named(newest(h, args), args.Limit))
		})
		if err != nil {
			return nil, false, err
		}
		found = newest(h, args)
		if more = len(found) > args.Limit; more {
			found = found[:args.Limit]
		}
		if complete(found) {
			break
		}
	}
	return found, more, nil
}

// named says whether the first few wakes all have a message.
func named(found []entry, most int) bool {
	return !slices.ContainsFunc(found[:min(most, len(found))], func(f entry) bool { return f.subject.ReminderID() != "" && f.subject.Message == "" })
}

// newest are the wakes that the arguments ask for, the newest first, without a limit.
func newest(h *projection.History, args tools.HistoryArgs) []entry {
	var found []entry
	for _, s := range append([]*projection.Subject{h.Heartbeat, h.Messages}, h.Reminders...) {
		if args.ID != "" && s.ID != args.ID && !(s == h.Heartbeat && args.ID == "heartbeat") {
			continue
		}
		for _, w := range s.Wakes {
			if args.Since == nil || int64(w.At()) >= args.Since.UnixMilli() {
				found = append(found, entry{s, w})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b entry) int { return a.wake.Newer(b.wake) })
	return found
}

func historyText(found []entry, more bool, args tools.HistoryArgs, zone *time.Location) string {
	if len(found) == 0 {
		if args.ID != "" {
			return "No wakes of " + text.Quote(args.ID) + " in the journal."
		}
		return "No wakes in the journal."
	}
	lines := []string{fmt.Sprintf("%d wake(s), newest first:", len(found))}
	for _, f := range found {
		lines = append(lines, text.HistoryLine(f.subject, f.wake, zone))
	}
	if more {
		lines = append(lines, "There are older ones: give a higher limit, or since.")
	}
	return strings.Join(lines, "\n")
}

func historyData(found []entry, more bool) rawjson.Object {
	wakes := []rawjson.Object{}
	for _, f := range found {
		w := f.wake
		var sent projection.Instant
		if len(w.Pushes) > 0 {
			sent = w.Pushes[0].SentAt
		}
		var late any
		if ms, ok := w.LateMs(); ok {
			late = ms
		}
		said := ""
		if f.subject.ID != "" { // the heartbeat's may be told before what was read
			said = w.Said(f.subject)
		}
		wakes = append(wakes, rawjson.Object{}.PutTextOrNull("reminderId", f.subject.ReminderID()).PutTextOrNull("message", text.Cut(said, 1000)).
			PutText("result", string(w.Result)).Put("due", w.Due).Put("sentAt", sent).Put("takenAt", w.TakenAt).Put("lateMs", late).
			Put("pushes", len(w.Pushes)).PutTextOrNull("reason", w.Why()).PutTextOrNull("inferenceId", w.InferenceID).Put("manual", w.Manual).PutTextOrNull("from", w.From))
	}
	return rawjson.Object{}.Put("count", len(wakes)).Put("more", more).Put("wakes", wakes)
}
