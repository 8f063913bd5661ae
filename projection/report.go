package projection

import (
	"slices"
)

// Filter says which wakes a report is about.
type Filter struct {
	Reminder string  // id; empty: all, and the heartbeat
	Since    Instant // 0: from the beginning
	Until    Instant // 0: to the end
}

// shows says whether anything of the wake lies in the filter's time.
func (f Filter) shows(w *Wake) bool {
	first, last := w.Due, max(w.Due, w.At())
	if len(w.Pushes) > 0 {
		first = min(first, w.Pushes[0].SentAt)
	}
	return (f.Since == 0 || last >= f.Since) && (f.Until == 0 || first <= f.Until)
}

// Totals are counts of what a report shows.
type Totals struct {
	Reminders int `json:"reminders"` // that the report shows
	Open      int `json:"open"`      // of them, not over yet
	Cancelled int `json:"cancelled"` // of them
	Wakes     int `json:"wakes"`     // occurrences, heartbeats among them
	Pushes    int `json:"pushes"`    // that were sent for them
	Messages  int `json:"messages"`  // of other agents, among the wakes
	Taken     int `json:"taken"`     // wakes that the host took
	Refused   int `json:"refused"`   // pushes that the host refused
	NoAnswer  int `json:"noAnswer"`  // pushes that nobody answered
	Dropped   int `json:"dropped"`   // heartbeats that fell due while wakes were blocked
	Waiting   int `json:"waiting"`   // wakes of open reminders that fell due and were not taken
	GivenUp   int `json:"givenUp"`   // wakes that were given up: cancelled reminders, messages read meanwhile, heartbeats that the host did not take
}

// Lateness says how long after they fell due wakes were taken, in milliseconds: nearest-rank percentiles. Heartbeats by
// hand are not in it.
type Lateness struct {
	Count int   `json:"count"`
	P50   int64 `json:"p50Ms"`
	P90   int64 `json:"p90Ms"`
	P99   int64 `json:"p99Ms"`
	Max   int64 `json:"maxMs"`
}

// Gap is a time in which no server ran. To is null while none has started again.
type Gap struct {
	From  Instant `json:"from"`
	To    Instant `json:"to"`
	Crash bool    `json:"crash"` // the server before it did not end by itself; it may have run for a while after From
}

// Report is a history as it is shown to people.
type Report struct {
	From      Instant    `json:"from"` // of the events that were read
	To        Instant    `json:"to"`
	Records   uint64     `json:"records"`
	Totals    Totals     `json:"totals"`
	Lateness  Lateness   `json:"lateness"`
	Heartbeat *Subject   `json:"heartbeat"` // nil: the filter leaves it out
	Messages  *Subject   `json:"messages"`  // nil: the filter leaves them out, or there are none
	Reminders []*Subject `json:"reminders"`
	Runs      []*Run     `json:"runs"`
	Gaps      []Gap      `json:"gaps"`

	// LateMs is the lateness of each wake that Lateness counts, ascending.
	LateMs []int64 `json:"-"`
}

// Report is what the filter lets through, with its totals.
func (h *History) Report(f Filter) *Report {
	r := &Report{From: h.First, To: h.Last, Records: h.Records, Reminders: []*Subject{}, Runs: h.Runs, Gaps: h.gaps(f)}
	if f.Reminder == "" {
		r.Heartbeat = f.part(h.Heartbeat)
		r.count(r.Heartbeat)
		if messages := f.part(h.Messages); len(messages.Wakes) > 0 {
			r.Messages, r.Totals.Messages = messages, len(messages.Wakes)
			r.count(messages)
		}
	}
	for _, s := range h.Reminders {
		if f.Reminder != "" && s.ID != f.Reminder {
			continue
		}
		part := f.part(s)
		part.State, part.StateAt = h.stateOf(s)
		if len(part.Wakes) == 0 && !f.covers(s) {
			continue
		}
		r.Reminders = append(r.Reminders, part)
		r.count(part)
		r.Totals.Reminders++
		switch {
		case s.CancelledAt > 0:
			r.Totals.Cancelled++
		case h.open[s.ID] == s:
			r.Totals.Open++
		}
	}
	r.rank()
	return r
}

// part is the subject with the wakes that the filter shows.
func (f Filter) part(s *Subject) *Subject {
	part := *s
	part.Wakes = slices.DeleteFunc(slices.Clone(s.Wakes), func(w *Wake) bool { return !f.shows(w) })
	if part.Wakes == nil {
		part.Wakes = []*Wake{}
	}
	return &part
}

// covers says whether a reminder without a wake in the filter's time was open in it.
func (f Filter) covers(s *Subject) bool {
	end := s.CancelledAt
	if n := len(s.Wakes); end == 0 && s.NextAt == 0 && n > 0 {
		end = s.Wakes[n-1].At()
	}
	return (f.Until == 0 || s.SetAt <= f.Until) && (end == 0 || end >= f.Since)
}

// Subjects are all that the report shows wakes of: the heartbeat, the messages, the reminders.
func (r *Report) Subjects() []*Subject {
	var all []*Subject
	for _, s := range []*Subject{r.Heartbeat, r.Messages} {
		if s != nil {
			all = append(all, s)
		}
	}
	return append(all, r.Reminders...)
}

func (r *Report) count(s *Subject) {
	t := &r.Totals
	for _, w := range s.Wakes {
		if w.Message == s.Message {
			w.Message = ""
		}
		if w.EveryMs == s.EveryMs {
			w.EveryMs = 0
		}
		t.Wakes++
		t.Pushes += len(w.Pushes)
		for _, p := range w.Pushes {
			switch p.Result {
			case ResultRefused:
				t.Refused++
			case ResultNoAnswer:
				t.NoAnswer++
			}
		}
		switch w.Result {
		case ResultTaken:
			t.Taken++
		case ResultDropped:
			t.Dropped++
		case ResultCancelled:
			t.GivenUp++
		default:
			if s.ID == "" && w.Result != ResultPending && !w.retried {
				t.GivenUp++ // the next heartbeat took its place (SPEC 6.5a)
			} else {
				t.Waiting++
			}
		}
		if late, ok := w.LateMs(); ok {
			w.Late = &late
			r.LateMs = append(r.LateMs, late)
		}
	}
}

func (r *Report) rank() {
	slices.Sort(r.LateMs)
	n := len(r.LateMs)
	r.Lateness.Count = n
	if n == 0 {
		return
	}
	rank := func(percent int) int64 { return r.LateMs[(n*percent+99)/100-1] }
	r.Lateness.P50, r.Lateness.P90, r.Lateness.P99, r.Lateness.Max = rank(50), rank(90), rank(99), r.LateMs[n-1]
}

// gaps are the times between runs, as far as the filter shows them.
func (h *History) gaps(f Filter) []Gap {
	gaps := []Gap{}
	for i, run := range h.Runs {
		if run.End == "" {
			continue
		}
		g := Gap{From: run.To, Crash: run.End == "crashed"}
		if i+1 < len(h.Runs) {
			g.To = h.Runs[i+1].From
		}
		if (g.To == 0 || g.To >= f.Since) && (f.Until == 0 || g.From <= f.Until) {
			gaps = append(gaps, g)
		}
	}
	return gaps
}
