package slip

import (
	"slices"
	"strings"
	"testing"
)

// TestDistanceIsTheFullDamerauLevenshtein: the restricted one, in which no part is edited twice, says 3.
func TestDistanceIsTheFullDamerauLevenshtein(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"ca", "abc", 2}, {"paused", "puased", 1}, {"message", "mesage", 1}, {"kitten", "sitting", 3}} {
		if got := Distance(c.a, c.b); got != c.want {
			t.Errorf("Distance(%s, %s) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestEachNameIsJudgedOnItsOwn(t *testing.T) {
	for _, c := range []struct{ name, names, sent, want string }{
		{"Paused", "paused message", "", "paused"},
		{"delivery_mode", "deliveryMode", "", "deliveryMode"},
		{"puased", "paused", "paused", "paused"},
		{"mode", "deliveryMode", "", "deliveryMode"},
		{"mo", "deliveryMode", "", ""},
		{"heartbeatIntervalMinutes", "intervalMinutes", "", "intervalMinutes"},
		{"pausedReason", "paused message", "paused", ""},
		{"pausedMessage", "paused message", "paused", "message"},
		{"at", "cat", "", ""},
		{"-_ ", "paused", "", ""},
		{"colour", "id message fireAt everySeconds", "id", ""},
	} {
		got := Of(c.name, strings.Fields(c.names), func(n string) bool { return slices.Contains(strings.Fields(c.sent), n) })
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s among %s, with %q sent: a slip of %q, want %q", c.name, c.names, c.sent, got, c.want)
		}
	}
}
