package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
)

// browser is a headless Chromium, or a skip that says why there is none.
func browser(t *testing.T) context.Context {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("there is no Chromium on this machine: the audit's page is not looked at in a browser")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1200, 900))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// pageOf is an audit with hostile texts, a refusal, a wake that waits, and a crash.
func pageOf(t *testing.T) string {
	t.Helper()
	const hour = 3600_000
	late := int64(5)
	taken := &projection.Wake{Due: hour, Result: projection.ResultTaken, TakenAt: hour + 5, Late: &late, Pushes: []projection.PushRecord{{SentAt: hour, EventID: "e1", Result: projection.ResultTaken, AnsweredAt: hour + 5}}}
	refused := &projection.Wake{Due: 2 * hour, Result: projection.ResultRefused, Pushes: []projection.PushRecord{{SentAt: 2 * hour, EventID: "e2", Result: projection.ResultRefused, AnsweredAt: 2 * hour, Reason: "busy & <i>late</i>"}}}
	a := &audit{
		Journal: "heartbeat-journal", Zone: "Europe/Berlin",
		Report: &projection.Report{
			From: 1, To: 3 * hour, Records: 9,
			Totals:    projection.Totals{Reminders: 2, Open: 1, Wakes: 3, Pushes: 2, Taken: 1, Refused: 1, Dropped: 1},
			Lateness:  projection.Lateness{Count: 1, P50: 5, P90: 5, P99: 5, Max: 5},
			Heartbeat: &projection.Subject{Wakes: []*projection.Wake{{Due: hour / 2, Result: projection.ResultDropped, DroppedAt: hour / 2, Reason: "host is MCP-only", Pushes: []projection.PushRecord{}}}},
			Reminders: []*projection.Subject{
				{ID: "rem_a", Message: `</script><script>document.title = "owned"</script>`, SetAt: 1, Wakes: []*projection.Wake{taken}},
				{ID: "rem_b", Message: `<img src="http://127.0.0.1:9/x.png" onerror="document.title='owned'">`, SetAt: 2, NextAt: 2 * hour, Wakes: []*projection.Wake{refused}},
			},
			Gaps: []projection.Gap{{From: hour + 1000, To: hour + 60_000, Crash: true}},
		},
		Damage: []journal.Damage{}, zone: time.UTC,
	}
	page, err := auditPage(a)
	if err != nil {
		t.Fatal(err)
	}
	h := newHome(t)
	h.write(h.path("page.html"), string(page))
	return "file://" + h.path("page.html")
}

// js is what an expression says in the page.
func js[T any](t *testing.T, ctx context.Context, expression string) T {
	t.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return v
}

func TestAuditPageInABrowser(t *testing.T) {
	ctx := browser(t)
	var mu sync.Mutex
	var complaints, requests []string
	err := chromedp.Listen(ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			complaints = append(complaints, string(e.Type))
		case *runtime.EventExceptionThrown:
			complaints = append(complaints, e.ExceptionDetails.Text)
		case *network.EventRequestWillBeSent:
			requests = append(requests, e.Request.URL)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	page := pageOf(t)
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(page)); err != nil {
		t.Fatal(err)
	}
	all := js[string](t, ctx, `document.getElementById("caption").textContent`)
	set := func(id, value, event string) string {
		return js[string](t, ctx, fmt.Sprintf(`(() => { const e = document.getElementById(%q); e.value = %q; e.dispatchEvent(new Event(%q));
			return document.getElementById("caption").textContent; })()`, id, value, event))
	}
	filtered := set("filter", "busy", "input")
	set("filter", "", "input")
	byResult := set("result", "dropped", "change")
	set("result", "", "change")
	js[bool](t, ctx, `document.querySelector("#columns th button").click() ?? true`)
	sorted := js[string](t, ctx, `document.querySelector("#rows td").textContent`)
	utc := js[string](t, ctx, `document.querySelector("#rows td.t[title]").title`)
	about := js[string](t, ctx, `document.getElementById("about").textContent`)
	dots := js[int](t, ctx, `document.querySelectorAll("#timeline-box circle").length`)
	crosses := js[int](t, ctx, `document.querySelectorAll("#timeline-box path").length`)
	before := js[string](t, ctx, `document.getElementById("timeline-box").innerHTML`)
	js[bool](t, ctx, `document.getElementById("timeline-box").focus() ?? true`)
	if err := chromedp.Do(ctx, chromedp.KeyEvent("+"), chromedp.KeyEvent(kb.ArrowRight)); err != nil {
		t.Fatal(err)
	}
	zoomed := js[string](t, ctx, `document.getElementById("timeline-box").innerHTML`)
	focused := js[bool](t, ctx, `document.activeElement.id === "timeline-box"`)
	title := js[string](t, ctx, `document.title`)
	for _, c := range []struct{ what, got, want string }{
		{"title", title, "What fired when"}, {"all wakes", all, "3 of 3 wakes"}, {"those that hold a text", filtered, "1 of 3 wakes"},
		{"those dropped", byResult, "1 of 3 wakes"}, {"sorted by name", sorted, "heartbeat"}, {"UTC on hover", utc, "1970-01-01T00:30:00.000Z"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", c.what, c.got, c.want)
		}
	}
	if !strings.Contains(about, "1970-01-01 01:00 to 1970-01-01 04:00 [Europe/Berlin]") {
		t.Errorf("about: %s", about)
	}
	if dots != 2 || crosses != 1 || zoomed == before || !focused {
		t.Errorf("%d dots, %d crosses, zoomed by the keyboard: %v, focused: %v", dots, crosses, zoomed != before, focused)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(complaints) > 0 {
		t.Errorf("the console says: %v", complaints)
	}
	for _, url := range requests {
		if url != page && !strings.HasPrefix(url, "data:") {
			t.Errorf("the page asked for %s", url)
		}
	}
}
