package projection

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"heartbeat-mcpl/projection/rawjson"
	"heartbeat-mcpl/projection/slip"
)

// A doubt is something in a view that looks like a mistake of the person who wrote it (SPEC 2.10): a misspelt member, or seconds in
// place of milliseconds. Reading a view does not refuse it: the journal may hold just that, and then it is none.
type doubt struct {
	member string
	meant  []string // of a misspelt member: what it may mean
	ms     int64    // of a time
	text   string   // a sentence fragment
}

type doubtfulEntry struct {
	entry  int // in the file, from 1
	id     string
	doubts []doubt
}

// The members of the two views that people write.
var (
	configMembers = []string{"intervalSeconds", "paused", "deliveryMode", "message", "standing", "cleared", "activeHours"}
	entryMembers  = []string{"id", "message", "createdAt", "fireAt", "everySeconds", "title", "severity", "url", "cron", "timeZone", "until", "remaining"}
)

// slips are the members that are not ours and look like one of ours, of the object that said them all (SPEC 4.3).
func slips(others map[string]json.RawMessage, ours []string, object []byte) []doubt {
	if len(others) == 0 {
		return nil
	}
	given := map[string]bool{}
	rawjson.Each(object, func(name []byte, value json.RawMessage) { given[string(name)] = string(value) != "null" })
	var all []doubt
	for _, name := range slices.Sorted(maps.Keys(others)) {
		if slices.Contains(ours, name) { // it says nothing here
			continue
		}
		if meant := slip.Of(name, ours, func(n string) bool { return given[n] }); len(meant) > 0 {
			all = append(all, doubt{member: name, meant: meant, text: fmt.Sprintf("%s is no member of it: did you mean %s?", shortQuote(name), strings.Join(meant, " or "))})
		}
	}
	return all
}

// Settle refuses what looks like a mistake and is not what the journal holds: what it may mean stays as it is. At the first import
// there is nothing that could stay: the member is kept as somebody else's, and said.
func (f *FileConfig) Settle(have Config, importing bool) {
	for _, d := range f.doubts {
		if rawjson.Get(have.Extra, d.member) != nil {
			continue
		}
		f.Problems = append(f.Problems, d.text)
		if importing {
			continue
		}
		f.drop(d.member)
		for _, name := range d.meant {
			f.leave(name)
		}
	}
	f.doubts = nil
}

// drop takes a member out of those that are not ours.
func (f *FileConfig) drop(member string) {
	others, err := objectMembers(f.Extra)
	if err != nil {
		return // it was an object a moment ago
	}
	delete(others, member)
	f.Extra = objectOf(others)
}

// leave has the file say nothing of one of our members.
func (f *FileConfig) leave(member string) {
	switch member {
	case "intervalSeconds":
		f.IntervalMs = nil
	case "paused":
		f.Paused = nil
	case "deliveryMode":
		f.Mode = nil
	case "message":
		f.Message = nil
	case "standing":
		f.Standing = nil
	case "cleared":
		f.Cleared = nil
	case "activeHours":
		f.Active = nil
	}
}

// Settle is [FileConfig.Settle] for the reminders: an entry that is refused stays as the journal has it.
func (f *FileReminders) Settle(have *State, importing bool) {
	refused := map[string]bool{}
	for _, e := range f.doubtful {
		known, _ := have.Reminder(e.id)
		for _, d := range e.doubts {
			if known.has(d) {
				continue
			}
			f.Problems = append(f.Problems, fmt.Sprintf("entry %d: %s", e.entry, d.text))
			if d.meant == nil || !importing {
				refused[e.id] = true
			}
		}
	}
	f.doubtful = nil
	f.Reminders = slices.DeleteFunc(f.Reminders, func(r Reminder) bool { return refused[r.ID] })
}

// has says whether what is doubted is what the reminder has; nil: there is none.
func (r *Reminder) has(d doubt) bool {
	if r == nil {
		return false
	}
	more := r.Details()
	if d.meant != nil {
		return rawjson.Get(more.Extra, d.member) != nil
	}
	return d.ms == map[string]int64{"createdAt": r.CreatedAt, "fireAt": r.FireAt, "until": more.Until}[d.member]
}

// leastTimeMs is the beginning of 2001. Numbers before it are seconds that should be milliseconds.
const leastTimeMs = 978_307_200_000

// timeReader reads the times of one entry, and notes which are doubtful.
type timeReader struct {
	zone   string // of the agent, for texts without an offset
	doubts []doubt
}

func (t *timeReader) in(member string) func(json.RawMessage) (int64, error) {
	return func(raw json.RawMessage) (int64, error) {
		if text, is := rawjson.Text(raw); is {
			return t.iso(text)
		}
		n, err := numberIn(raw)
		if err != nil {
			return 0, fmt.Errorf("is neither milliseconds nor a time in ISO 8601 (%s)", shortRaw(raw))
		}
		if n < 0 || n > MostTimeMs {
			return 0, fmt.Errorf("is out of range (%s; milliseconds since 1970, up to the year 9999)", shortRaw(raw))
		}
		ms := int64(math.Round(n))
		right := int64(math.Round(n * 1000))
		if ms < leastTimeMs && (right >= leastTimeMs || member != "createdAt") { // which scripts set to 0 where they do not know it: no harm
			text := fmt.Sprintf("%s is %s, which is before 2001: give milliseconds since 1970", member, shortRaw(raw))
			if right >= leastTimeMs {
				text = fmt.Sprintf("%s is %s, which are seconds: give milliseconds, %d", member, shortRaw(raw), right)
			}
			t.doubts = append(t.doubts, doubt{member: member, ms: ms, text: text})
		}
		return ms, nil
	}
}

func (t *timeReader) iso(text string) (int64, error) {
	zone, err := time.LoadLocation(t.zone)
	if err != nil {
		zone = time.UTC // the agent's is checked when it is set
	}
	at, err := ParseISO(text, zone)
	if err != nil {
		return 0, fmt.Errorf("is neither milliseconds nor a time in ISO 8601 (%s): %w", shortQuote(text), err)
	}
	if at.At.UnixMilli() < 0 {
		return 0, fmt.Errorf("is before 1970 (%s)", shortQuote(text))
	}
	return at.At.UnixMilli(), nil
}

func (t *timeReader) until(raw json.RawMessage) (int64, error) {
	until, err := t.in("until")(raw)
	if err == nil && until == 0 {
		err = errors.New("is 0")
	}
	return until, err
}
