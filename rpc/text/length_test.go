package text

import "testing"

func TestOneFormForLengths(t *testing.T) {
	for _, row := range []struct {
		ms           int64
		exact, about string
	}{
		{0, "0s", "0s"},
		{8, "8ms", "8ms"},
		{999, "999ms", "999ms"},
		{1500, "1.5s", "1.5s"},
		{2345, "2.345s", "2.3s"},
		{59_960, "59.96s", "1m"},
		{60_000, "1m", "1m"},
		{90_000, "1m30s", "1m30s"},
		{257_400, "4m17.4s", "4m17s"},
		{600_000, "10m", "10m"},
		{3_599_600, "59m59.6s", "1h"},
		{5_400_000, "1h30m", "1h30m"},
		{3_605_000, "1h5s", "1h"},
		{86_400_000, "1d", "1d"},
		{86_399_999, "23h59m59.999s", "1d"},
		{529_494_000, "6d 3h4m54s", "6d 3h"},
		{14 * 86_400_000, "14d", "14d"},
		{86_400_001, "1d 0.001s", "1d"},
		{-90_000, "-1m30s", "-1m30s"},
	} {
		if got := Length(row.ms); got != row.exact {
			t.Errorf("Length(%d) is %q, want %q", row.ms, got, row.exact)
		}
		if got := About(row.ms); got != row.about {
			t.Errorf("About(%d) is %q, want %q", row.ms, got, row.about)
		}
	}
}
