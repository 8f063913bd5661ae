package projection

// WakeState is the one word with which people read where a wake or a reminder stands: in the terminal, on the page, in the
// columns and members named state. [Result] is what programs parse; it maps to these words in one place, here.
type WakeState string

// The states, in the order of a wake's life.
const (
	StateScheduled WakeState = "scheduled"
	StateWaiting   WakeState = "waiting"
	StateSent      WakeState = "sent"
	StateTaken     WakeState = "taken"
	StateRefused   WakeState = "refused"
	StateNoAnswer  WakeState = "no answer"
	StateDropped   WakeState = "dropped"
	StateCancelled WakeState = "cancelled"
)

// WakeStates are all states with what they mean, in that order.
var WakeStates = []struct {
	State WakeState `json:"state"`
	Means string    `json:"means"`
}{
	{StateScheduled, "due later"},
	{StateWaiting, "due, not sent yet"},
	{StateSent, "sent, no answer yet"},
	{StateTaken, "the host took it"},
	{StateRefused, "the host refused it"},
	{StateNoAnswer, "the host did not answer"},
	{StateDropped, "a heartbeat that was due while wakes were blocked"},
	{StateCancelled, "cancelled or changed before the host took it"},
}

// State is the word for a result: of all but one it is the same.
func (r Result) State() WakeState {
	if r == ResultDue {
		return StateWaiting
	}
	return WakeState(r)
}

// stateOf says where a reminder stands, as its last wake does while the host did not take that one; and when it falls or
// fell due, was taken or was cancelled.
func (h *History) stateOf(s *Subject) (WakeState, Instant) {
	var last *Wake
	if n := len(s.Wakes); n > 0 {
		last = s.Wakes[n-1]
	}
	switch {
	case s.CancelledAt > 0:
		return StateCancelled, s.CancelledAt
	case h.open[s.ID] != s && last != nil:
		return StateTaken, last.TakenAt
	case last != nil && last.Result != ResultTaken && last.Result != ResultCancelled:
		return last.Result.State(), last.Due
	}
	return StateScheduled, s.NextAt
}

// Over says whether a reminder of a report comes no more.
func (s *Subject) Over() bool { return s.State == StateTaken || s.State == StateCancelled }
