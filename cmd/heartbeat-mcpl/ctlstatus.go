package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"heartbeat-mcpl/rpc/text"
)

// mostListed is how many reminders the status screen lists.
const mostListed = 10

// beatStatus is what heartbeat_status says, as far as the screen shows it.
type beatStatus struct {
	Status, DeliveryMode, Delivery, Message string
	BlockedReason, ActiveHours              *string
	NextAt, LastTakenAt                     *time.Time
	IntervalSeconds                         float64
	Reminders, Taken                        int
	NotTaken                                *struct {
		Reminders, Messages int
		Heartbeat           bool
		Reason              string
		NextTryAt           *time.Time
	}
	Notes []string
}

// reminderList is what reminder_list says, as far as the screen shows it.
type reminderList struct {
	Count     int
	Reminders []listedReminder
}

type listedReminder struct {
	ID, Message  string
	FireAt       time.Time
	EverySeconds *float64
	Cron         *string
	Repeats      string
	Overdue      bool
	LastRefusal  *struct {
		Reason    string
		Tries     int
		NextTryAt *time.Time
	}
}

// printStatus prints the status screen.
func printStatus(u ui, status, list json.RawMessage, zone *time.Location) {
	var s beatStatus
	var l reminderList
	if err := errors.Join(json.Unmarshal(status, &s), json.Unmarshal(list, &l)); err != nil {
		u.bad("the server's answer cannot be read: %v", err)
		return
	}
	u.line("%s", u.paint(dim, "times in "+zone.String()))
	u.heartbeat(s, zone)
	u.reminders(l, zone)
	for _, note := range s.Notes {
		u.bad("%s", text.Safe(note))
	}
}

func (u ui) heartbeat(s beatStatus, zone *time.Location) {
	standing := map[string]string{"active": u.paint(green, "active"), "paused": u.paint(yellow, "paused"), "not set": u.paint(yellow, "not set")}[s.Status]
	u.line("%s  %s", u.paint(bold, "Heartbeat"), standing)
	if s.Status != "not set" {
		hours := ""
		if s.ActiveHours != nil {
			hours = ", in the hours " + *s.ActiveHours
		}
		u.line("  every    %s (%s)%s", text.Length(int64(s.IntervalSeconds*1000)), s.DeliveryMode, hours)
		if s.NextAt != nil {
			u.line("  %s", s.next(zone))
		}
		last := "never"
		if s.LastTakenAt != nil {
			last = fmt.Sprintf("%s (%s), %s in all", local(*s.LastTakenAt, zone), distance(*s.LastTakenAt), text.Plural(s.Taken, "time"))
		}
		u.line("  taken    %s", last)
		u.line("  says     %s", text.Quote(short(s.Message, 100)))
	}
	switch {
	case s.BlockedReason == nil:
		u.line("  %s", u.paint(green, "wakes are delivered"))
	case s.Delivery == "polled":
		u.line("  %s", u.paint(green, "wakes are polled by the host"))
	case s.Delivery == "pollable":
		u.line("  %s: %s; nothing has polled lately", u.paint(yellow, "wakes wait to be polled"), *s.BlockedReason)
	default:
		u.line("  %s: %s", u.paint(red, "no wake can be sent"), *s.BlockedReason)
	}
	u.notTaken(s)
}

// notTaken says what the host did not take, and when it is tried again.
func (u ui) notTaken(s beatStatus) {
	n := s.NotTaken
	if n == nil {
		return
	}
	var what []string
	for _, one := range []struct {
		n    int
		noun string
	}{{n.Reminders, "reminder"}, {n.Messages, "message"}} {
		if one.n > 0 {
			what = append(what, text.Plural(one.n, one.noun))
		}
	}
	if n.Heartbeat {
		what = append(what, "the heartbeat")
	}
	next := ""
	if n.NextTryAt != nil {
		next = ", next try " + distance(*n.NextTryAt)
	}
	u.line("  %s: %s (%s)%s", u.paint(yellow, "not taken"), strings.Join(what, ", "), text.OneLine(short(n.Reason, 60)), next)
}

// next says when the heartbeat comes. One whose time has passed waits: nothing comes in the past.
func (s *beatStatus) next(zone *time.Location) string {
	if time.Until(*s.NextAt).Round(time.Second) > 0 {
		return fmt.Sprintf("next     %s (%s)", local(*s.NextAt, zone), distance(*s.NextAt))
	}
	waits := "it is on its way"
	if s.BlockedReason != nil {
		waits = *s.BlockedReason
	}
	return fmt.Sprintf("due      since %s (%s), %s", local(*s.NextAt, zone), distance(*s.NextAt), waits)
}

func (u ui) reminders(l reminderList, zone *time.Location) {
	u.line("\n%s  %d", u.paint(bold, "Reminders"), l.Count)
	w := tabwriter.NewWriter(u.out, 2, 0, 2, ' ', 0)
	for _, r := range l.Reminders {
		rhythm := "once"
		switch {
		case r.EverySeconds != nil:
			rhythm = "every " + text.Length(int64(*r.EverySeconds*1000))
		case r.Repeats != "":
			rhythm = "every " + strings.TrimPrefix(r.Repeats, "1 ")
		case r.Cron != nil:
			rhythm = *r.Cron
		}
		when := distance(r.FireAt)
		if r.Overdue {
			when = "due " + distance(r.FireAt)
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\n", local(r.FireAt, zone), when, rhythm, text.Safe(r.ID), text.Quote(short(r.Message, 60)))
		if r.LastRefusal != nil {
			next := ""
			if r.LastRefusal.NextTryAt != nil {
				next = ", next " + distance(*r.LastRefusal.NextTryAt)
			}
			fmt.Fprintf(w, "  \t\t\t\tnot taken %s: %s%s\n", times(r.LastRefusal.Tries), text.OneLine(short(r.LastRefusal.Reason, 60)), next)
		}
	}
	_ = w.Flush() // the error stays in u.out
	if more := l.Count - len(l.Reminders); more > 0 {
		u.line("  and %d more; ctl list shows all", more)
	}
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func local(t time.Time, zone *time.Location) string { return t.In(zone).Format("2006-01-02 15:04:05") }

// distance is how far a time is away.
func distance(t time.Time) string {
	d := time.Until(t).Round(time.Second)
	switch {
	case d == 0:
		return "now"
	case d < 0:
		return text.About((-d).Milliseconds()) + " ago"
	}
	return "in " + text.About(d.Milliseconds())
}
