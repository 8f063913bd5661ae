package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/projection/rawjson"
	"heartbeat-mcpl/recovery"
	"heartbeat-mcpl/rpc/text"
	"heartbeat-mcpl/rpc/tools"
)

// parseRestore reads the state to go back to, beside the loop.
func (e *Engine) parseRestore(arguments json.RawMessage) func() reply {
	args, past, err := e.past(arguments)
	if err != nil {
		return func() reply { return refusal(err) }
	}
	return func() reply { return e.restore(args, past) }
}

func (e *Engine) past(arguments json.RawMessage) (tools.RestoreArgs, *projection.State, error) {
	args, err := tools.ParseRestore(arguments)
	if err != nil {
		return args, nil, err
	}
	past, err := recovery.StateAt(e.o.Store.Journal, args.At)
	if err == nil && past.Index != args.At {
		err = fmt.Errorf("there is no event %d in the journal", args.At)
	}
	if err != nil {
		return args, nil, fmt.Errorf("the state at event %d cannot be read: %w", args.At, err)
	}
	return args, past, nil
}

// restore says what brings the state back to past and, where that is asked for, does it.
func (e *Engine) restore(args tools.RestoreArgs, past *projection.State) reply {
	now := e.now()
	plan := e.state().Restoration(journal.ByCLI, past, now)
	bodies := plan.Bodies()
	var said strings.Builder
	then := fmt.Sprintf("event %d, %s", past.Index, text.Agent(past.TimeMs, e.o.Zone))
	switch {
	case len(bodies) == 0:
		fmt.Fprintf(&said, "Nothing differs from what was at %s.", then)
	case args.Apply:
		fmt.Fprintf(&said, "Restored what was at %s.", then)
	default:
		fmt.Fprintf(&said, "To go back to %s:", then)
	}
	for _, c := range plan.Settings {
		fmt.Fprintf(&said, "\n  setting     %s: %s -> %s", c.Name, c.From, c.To)
	}
	e.listRestored(&said, "comes back", plan.Back)
	e.listRestored(&said, "goes", plan.Gone)
	e.listRestored(&said, "changes", plan.Changed)
	e.listRestored(&said, "is over", plan.Over)
	due := slices.ContainsFunc(slices.Concat(plan.Back, plan.Changed), func(r *projection.Reminder) bool { return r.FireAt <= now })
	if due {
		said.WriteString("\nWhat is marked as overdue comes at once.")
	}
	if len(bodies) > 0 && !args.Apply {
		said.WriteString("\nNothing was changed. Say --yes to do it.")
	}
	r := reply{text: said.String(), saves: true, changed: args.Apply && len(bodies) > 0}
	if r.changed {
		e.record(bodies...)
		e.store.ForgetOlder()
		e.retryNow()
		e.logWaiting()
	}
	settings := []rawjson.Object{}
	for _, c := range plan.Settings {
		settings = append(settings, rawjson.Object{}.PutText("name", c.Name).PutText("from", c.From).PutText("to", c.To))
	}
	r.data = rawjson.Object{}.Put("index", int64(past.Index)).Put("at", projection.Moment(past.TimeMs)).Put("settings", settings).
		Put("back", restoredData(plan.Back, now, e.o.Zone)).Put("gone", restoredData(plan.Gone, now, e.o.Zone)).Put("changed", restoredData(plan.Changed, now, e.o.Zone)).
		Put("over", restoredData(plan.Over, now, e.o.Zone)).Put("applied", r.changed)
	return r
}

func (e *Engine) listRestored(said *strings.Builder, what string, all []*projection.Reminder) {
	for _, r := range all {
		fmt.Fprintf(said, "\n  %-11s %s", what, text.ReminderLine(r, text.Again{}, e.now(), e.o.Zone))
	}
}

func restoredData(all []*projection.Reminder, now int64, zone *time.Location) []rawjson.Object {
	list := []rawjson.Object{}
	for _, r := range all {
		list = append(list, reminderData(r, now, zone).Put("overdue", r.FireAt <= now))
	}
	return list
}
