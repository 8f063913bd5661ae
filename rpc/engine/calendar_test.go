package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"heartbeat-mcpl/journal"
)

// The bubble's time begins on Saturday, 2000-01-01 00:00 UTC.

func TestReminderAddShowsWhetherItSaysWhatWasMeant(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for _, c := range []struct{ arguments, text, data string }{
			{`{"message":"m","atIso":"thu 15:00","every":"2 weeks"}`,
				": next 2000-01-06T15:00:00+00:00 [UTC] (~486000s) | repeats every 2 weeks [UTC] | \"m\"\nThat is Thursday, 5 days 15 hours from now. Then Thu 2000-01-20 15:00, Thu 2000-02-03 15:00, Thu 2000-02-17 15:00.",
				`"fireAt":"2000-01-06T15:00:00+00:00","weekday":"Thursday","inSeconds":486000,"inWords":"5 days 15 hours","repeats":"2 weeks","createdAt":"2000-01-01T00:00:00+00:00",` +
					`"then":["2000-01-20T15:00:00+00:00","2000-02-03T15:00:00+00:00","2000-02-17T15:00:00+00:00"],"timeZone":"UTC"`},
			{`{"message":"m","atIso":"2000-01-03T09:00","timeZone":"Asia/Tokyo"}`, ": next 2000-01-03T09:00:00+09:00 [Asia/Tokyo] (~172800s) | one-shot | \"m\"\nThat is Monday, 2 days from now.",
				`"fireAt":"2000-01-03T09:00:00+09:00","weekday":"Monday","inSeconds":172800,"inWords":"2 days","createdAt":"2000-01-01T09:00:00+09:00","timeZone":"Asia/Tokyo"`},
			{`{"message":"m","atIso":"2000-01-03T09:00[Asia/Tokyo]","every":"weekday"}`, "| repeats every weekday [Asia/Tokyo] |", `"2000-01-04T09:00:00+09:00"`},
			{`{"message":"m","every":"month"}`, ": next 2000-02-01T00:00:00+00:00", `"repeats":"1 month"`},
			{`{"message":"m","every":"1 month","atIso":"2000-01-31T18:00"}`, "Then Tue 2000-02-29 18:00, Fri 2000-03-31 18:00, Sun 2000-04-30 18:00.", `"2000-04-30T18:00:00+00:00"`},
			{`{"message":"m","every":"weekday","atIso":"10:00"}`, ": next 2000-01-03T10:00:00+00:00", `"weekday":"Monday"`},
			{`{"message":"m","every":"1 day","in":"30h"}`, "That is Sunday, 1 day 6 hours from now. Then Mon 2000-01-03 06:00,", `"2000-01-03T06:00:00+00:00"`},
			{`{"message":"m","cron":"0 9 * * 1-5","atIso":"2000-02-01"}`, ": next 2000-02-01T09:00:00+00:00", `"cron":"0 9 * * 1-5"`},
			{`{"message":"m","cron":"0 9 * * *","atIso":"2000-02-01T09:00"}`, ": next 2000-02-01T09:00:00+00:00", `"weekday":"Tuesday"`},
			{`{"message":"m","cron":"0 9 * * *","in":"9h30m"}`, ": next 2000-01-02T09:00:00+00:00", `"weekday":"Sunday"`},
			{`{"message":"m","cron":"0 9 * * *","atIso":"1999-01-01"}`, ": next 2000-01-01T09:00:00+00:00", `"inWords":"9 hours"`},
			{`{"message":"m","cron":"@monthly"}`, `: next 2000-02-01T00:00:00+00:00 [UTC] (~2678400s) | repeats by cron "0 0 1 * *" [UTC]`, `"cron":"0 0 1 * *"`},
			{`{"message":"m","cron":"0 10 1-7 * 1"}`, "In cron either is enough, the day of the month or the weekday; for both write 1#1", `"caution":"In cron either is enough`},
			{`{"message":"m","cron":"0 10 * * 1#1"}`, "Then Mon 2000-02-07 10:00, Mon 2000-03-06 10:00, Mon 2000-04-03 10:00.", `"2000-04-03T10:00:00+00:00"`},
			{`{"message":"m","everyHours":"24"}`, "everyHours counts elapsed hours", `"notes":["everyHours counts elapsed hours`},
			{`{"message":"m","inSeconds":"90","until":"in 3m","everyMinutes":"1"}`, "Then Sat 2000-01-01 00:02:30, and no more.", `"until":"2000-01-01T00:03:00+00:00"`},
		} {
			reply := r.call("reminder_add", c.arguments)
			validated(t, "reminder_add", reply)
			if reply.IsError || !strings.Contains(reply.Text, c.text) || !strings.Contains(string(reply.Structured), c.data) {
				t.Errorf("%s:\n%s\n%s\nlack\n%s\n%s", c.arguments, reply.Text, reply.Structured, c.text, c.data)
			}
			if strings.Contains(string(reply.Structured), "null") {
				t.Errorf("%s: what does not apply is there: %s", c.arguments, reply.Structured)
			}
		}
		before := r.e.state().Len()
		for arguments, want := range map[string]string{
			`{"message":"m","every":"1 day","atIso":"in 2 days","until":"tomorrow 09:00"}`: "it would first come at 2000-01-03T00:00:00+00:00 [UTC], which is after until",
			`{"message":"m","atIso":"someday"}`:                                            "such as 2000-01-04T15:00 or tue 15:00",
			`{"message":"m","at":"15:00"}`:                                                 "did you mean atIso",
		} {
			if reply := r.call("reminder_add", arguments); !reply.IsError || !strings.Contains(reply.Text, want) {
				t.Errorf("%s: %s", arguments, reply.Text)
			}
		}
		if after := r.e.state().Len(); after != before {
			t.Errorf("%d reminders were set by refused calls", after-before)
		}
	})
}

// TestARuleKeepsItsTimeOfDayWhenTheClocksChange: through the change, a restart and a view that is made anew.
func TestARuleKeepsItsTimeOfDayWhenTheClocksChange(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.open()
		jump := func(to time.Time) { // the machine sleeps until then
			r.step.Add(int64(to.Sub(r.e.o.Wall())))
			r.pass(2 * time.Second)
		}
		jump(time.Date(2000, 3, 25, 0, 0, 0, 0, time.UTC))
		id := r.add(`{"message":"daily","atIso":"09:00","every":"day","timeZone":"Europe/Berlin"}`)
		came := func() (n int) {
			for _, p := range r.host.pushes() {
				if p.params.Origin.ReminderID == id {
					n++
				}
			}
			return n
		}
		for _, want := range []string{"2000-03-25T08:00:00Z", "2000-03-26T07:00:00Z", "2000-03-27T07:00:00Z"} { // summer time from the 26th on
			r.host.answerWith((*fakePush).accept1)
			at, err := time.Parse(time.RFC3339, want)
			if err != nil {
				t.Fatal(err)
			}
			if jump(at.Add(-10 * time.Second)); came() != 0 {
				t.Errorf("it came before %s", want)
			}
			if r.pass(10 * time.Second); came() != 1 {
				t.Errorf("at %s it came %d times", want, came())
			}
			r.stop()
			if err := os.Remove(filepath.Join(r.dir, "reminders.json")); err != nil {
				t.Fatal(err)
			}
			r.start() // with a host that has had no push
			r.open()
		}
		if adds := r.events(journal.KindAdd); len(adds) != 1 {
			t.Errorf("%d add events: the view was taken for an edit", len(adds))
		}
	})
}

func TestListShowsOnlyWhatContains(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for i := range 5 {
			r.add(fmt.Sprintf(`{"message":"Look at the Build %d","inHours":%d}`, i, i+1))
			r.add(fmt.Sprintf(`{"message":"tea","inHours":%d,"title":"Break"}`, i+1))
		}
		for arguments, want := range map[string]string{
			`{"contains":"build"}`:             `5 of 10 reminder(s) with "build":`,
			`{"contains":"BREAK"}`:             `5 of 10 reminder(s) with "BREAK":`,
			`{"contains":"coffee"}`:            `None of the 10 reminder(s) has "coffee" in its message or title.`,
			`{"contains":"build","limit":"2"}`: "And 3 more: call reminder_list again with after",
			`{"limit":9}`:                      "And 1 more: call reminder_list again with after",
		} {
			reply := r.call("reminder_list", arguments)
			validated(t, "reminder_list", reply)
			if reply.IsError || !strings.Contains(reply.Text, want) || strings.Contains(arguments, "build") && strings.Contains(reply.Text, "tea") {
				t.Errorf("%s: %s", arguments, reply.Text)
			}
		}
		r.says("reminder_list", "10 reminder(s):\n", `"tea" | Sat, in 5h`)
		reply := r.call("reminder_list", `{"contains":"build","limit":2}`)
		if more, matching := field[int](t, reply, "more"), field[int](t, reply, "matching"); more != 3 || matching != 5 {
			t.Errorf("more %d, matching %d", more, matching)
		}
	})
}

// TestAListAsDataIsNotMuchLongerThanItsText: hosts pay for each byte.
func TestAListAsDataIsNotMuchLongerThanItsText(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for i := range 50 {
			when := []string{`"inHours":30`, `"atIso":"2000-02-01T09:00"`, `"every":"1 month"`, `"everyHours":5`, `"cron":"0 9 * * 1-5"`}[i%5]
			r.add(fmt.Sprintf(`{"message":"Look at the build of branch %d",%s}`, i, when))
		}
		reply := r.call("reminder_list", "")
		if text, data := len(reply.Text), len(reply.Structured); 2*data > 3*text {
			t.Errorf("%d bytes of data for %d of text", data, text)
		}
	})
}

func TestCancelSaysWhatIsGone(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var ids []string
		for i := range 4 {
			ids = append(ids, r.add(fmt.Sprintf(`{"message":"m%d","inHours":1}`, i)))
		}
		reply := r.call("reminder_cancel", fmt.Sprintf(`{"id":%q}`, ids[0]))
		validated(t, "reminder_cancel", reply)
		if want := "Cancelled " + ids[0] + `: "m0". 3 reminder(s) remain.`; !strings.HasPrefix(reply.Text, want) || field[string](t, reply, "message") != "m0" {
			t.Errorf("got %s\n%s", reply.Text, reply.Structured)
		}
		for arguments, want := range map[string]string{
			fmt.Sprintf(`{"ids":[%q,"rem_none"]}`, ids[1]):      `There is no reminder "rem_none".`,
			fmt.Sprintf(`{"ids":[%q],"id":%q}`, ids[1], ids[2]): "id and ids contradict each other",
			`{"ids":[]}`: "ids is empty",
		} {
			if reply := r.call("reminder_cancel", arguments); !reply.IsError || !strings.Contains(reply.Text, want) {
				t.Errorf("%s: %s", arguments, reply.Text)
			}
		}
		if n := r.e.state().Len(); n != 3 {
			t.Fatalf("%d reminders are left by refused calls", n)
		}
		reply = r.call("reminder_cancel", fmt.Sprintf(`{"ids":[%q,%q,%q]}`, ids[1], ids[2], ids[1]))
		validated(t, "reminder_cancel", reply)
		want := "Cancelled " + ids[1] + ": \"m1\".\nCancelled " + ids[2] + ": \"m2\".\n1 reminder(s) remain."
		if !strings.HasPrefix(reply.Text, want) {
			t.Errorf("got %s\nwant %s", reply.Text, want)
		}
	})
}
