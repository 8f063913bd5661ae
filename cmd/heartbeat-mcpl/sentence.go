package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/rpc/text"
)

// sentence says in words what an event means; times in it are in the zone.
func sentence(e journal.Event, zone *time.Location) string {
	at := func(ms int64) string { return time.UnixMilli(ms).In(zone).Format("2006-01-02 15:04:05.000") }
	switch b := e.Body.(type) {
	case *journal.Begin:
		if b.Replaces != "" {
			return "the journal was made anew from the good records of " + b.Replaces
		}
		return "the journal was made"
	case *journal.Configure:
		return configured(b) + byWhom(b.By)
	case *journal.Add:
		return fmt.Sprintf("%s was set%s: due %s%s, %s", b.ID, byWhom(b.By), at(b.FireAt), repeats(b, at), text.Quote(b.Message))
	case *journal.Cancel:
		return b.ID + " was cancelled" + byWhom(b.By)
	case *journal.Fire:
		return fired(b, at)
	case *journal.Ack:
		return acked(b, at)
	case *journal.Refuse:
		return refused(b)
	case *journal.Drop:
		return fmt.Sprintf("the heartbeat that was due %s was dropped: %s", at(b.Due), b.Reason)
	case *journal.Start:
		return fmt.Sprintf("server %s started (process %d, time zone %s)", b.Version, b.PID, b.Zone)
	case *journal.Stop:
		return fmt.Sprintf("the server stopped (process %d): %s", b.PID, b.Reason)
	case *journal.Policy:
		if b.Allowed {
			return "the host lets wakes through"
		}
		return "the host blocks wakes: " + b.Reason
	case *journal.Import:
		part := ""
		if b.Partial {
			part = ", usable in part"
		}
		return fmt.Sprintf("%s was read into the journal: %s (sha256 %s%s)", b.File, text.Plural(b.Changes, "change"), cutTo(b.SHA256, 16), part)
	case *journal.SetAside:
		return setAside(b)
	case *journal.Snapshot:
		return fmt.Sprintf("the whole state, part %d of %d (%d bytes)", b.Part+1, b.Parts, len(b.Data))
	case *journal.Hole:
		return "lost: " + b.Why
	case *journal.Clock:
		return fmt.Sprintf("the clock was set back by %s: running intervals moved back with it", text.Length(b.ShiftMs))
	}
	return meshSentence(e, at)
}

// meshSentence says what an event of the mesh means.
func meshSentence(e journal.Event, at func(int64) string) string {
	switch b := e.Body.(type) {
	case *journal.CheckIn:
		return "the agent takes part in the mesh as " + b.Agent
	case *journal.Present:
		return fmt.Sprintf("%s is here%s (for %s without a word)", b.Agent, prefixed(", as ", b.Role)+prefixed(", in ", b.Repo)+prefixed(": ", b.Status), text.Length(b.TTLMs))
	case *journal.Touch:
		return b.Agent + " was heard of"
	case *journal.Message:
		return fmt.Sprintf("%s wrote to %s: %s (%s)", b.From, strings.Join(b.To, ", "), text.Quote(b.Text), b.ID)
	case *journal.Tell:
		again := ""
		if b.Again {
			again = ", again under the same event id"
		}
		return fmt.Sprintf("message %s from %s is pushed%s: written %s (%s)", b.Message, b.From, again, at(b.WrittenAt), b.EventID)
	case *journal.Ask:
		return "a heartbeat was asked for" + byWhom(b.By) + ", to be polled"
	case *journal.Told:
		return fmt.Sprintf("the host took message %s from %s (%s)", b.Message, b.From, b.EventID)
	case *journal.Read:
		return fmt.Sprintf("%s has read %s", b.Agent, strings.Join(b.IDs, ", "))
	}
	return fmt.Sprintf("written by a newer version (%d bytes)", len(e.Raw))
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

func byWhom(by journal.Source) string {
	switch by {
	case journal.ByTool:
		return " by the agent"
	case journal.ByFile:
		return " by an edit of the file"
	case journal.ByCLI:
		return " at the command line"
	case journal.ByImport:
		return " in the files that were taken over"
	}
	return ""
}

// repeats is how a reminder that is set comes again, and until when.
func repeats(b *journal.Add, at func(int64) string) string {
	s := ""
	switch {
	case b.EveryMs > 0:
		s = ", repeats every " + text.Length(b.EveryMs)
	case b.Repeats != "":
		s = fmt.Sprintf(", repeats every %s [%s]", strings.TrimPrefix(b.Repeats, "1 "), b.Zone)
	case b.Cron != "":
		s = fmt.Sprintf(", repeats by the calendar %q [%s]", b.Cron, b.Zone)
	}
	if b.Until > 0 {
		s += ", until " + at(b.Until)
	}
	if b.Left > 0 {
		s += fmt.Sprintf(", %d left", b.Left)
	}
	return s
}

func configured(b *journal.Configure) string {
	var changes []string
	if b.IntervalMs != nil {
		changes = append(changes, "interval "+text.Length(*b.IntervalMs))
	}
	switch {
	case b.Cleared != nil && *b.Cleared:
		changes = append(changes, "cleared")
	case b.Paused != nil:
		changes = append(changes, map[bool]string{true: "paused", false: "resumed"}[*b.Paused])
	}
	if b.Mode != nil {
		changes = append(changes, "mode "+*b.Mode)
	}
	if b.Message != nil {
		changes = append(changes, "message "+text.Quote(*b.Message))
	}
	if b.Active != nil {
		changes = append(changes, "hours "+cmp.Or(*b.Active, "always"))
	}
	if b.ClearExtra || len(b.Extra) > 0 {
		changes = append(changes, "members that are not the server's")
	}
	if len(changes) == 0 {
		changes = []string{"its interval begins anew"}
	}
	return "the heartbeat was configured: " + strings.Join(changes, ", ")
}

func fired(b *journal.Fire, at func(int64) string) string {
	how := ""
	switch {
	case b.Retry && b.Again:
		how = ", again under the same event id"
	case b.Retry:
		how = ", again"
	case b.Fallback:
		how = ", again with its text"
	case b.Silent:
		how = ", silent"
	case b.Again:
		how = ", again under the same event id"
	}
	if b.Manual {
		return fmt.Sprintf("the heartbeat is pushed on demand%s (%s)", how, b.EventID)
	}
	return fmt.Sprintf("%s is pushed%s: due %s (%s)", wakeName(b.ID), how, at(b.Due), b.EventID)
}

func acked(b *journal.Ack, at func(int64) string) string {
	s := "the host took " + wakeName(b.ID)
	switch {
	case b.Duplicate:
		s += ", as it says before"
	case b.Late:
		s += " late"
	}
	if b.Next > 0 {
		s += ", next " + at(b.Next)
	}
	if b.InferenceID != "" {
		s += ", inference " + text.OneLine(b.InferenceID)
	}
	return s + " (" + b.EventID + ")"
}

func refused(b *journal.Refuse) string {
	code := ""
	if b.Code != 0 {
		code = fmt.Sprintf("error %d, ", b.Code)
	}
	verb := "refused"
	if b.NoAnswer {
		verb = "did not answer"
	}
	name := wakeName(b.ID)
	if b.Message != "" {
		name = "message " + b.Message
	}
	return fmt.Sprintf("the host %s %s: %s%s (%s)", verb, name, code, text.OneLine(b.Reason), b.EventID)
}

func setAside(b *journal.SetAside) string {
	s := b.File + " could not be used: " + b.Why
	if b.Copy != "" {
		s += "; kept as " + b.Copy
	}
	if b.Lost > 0 {
		s += fmt.Sprintf("; %s lost", text.Plural(int(b.Lost), "record"))
	}
	return s
}

func wakeName(id string) string {
	if id == "" {
		return "the heartbeat"
	}
	return id
}

func cutTo(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return s[:most]
}
