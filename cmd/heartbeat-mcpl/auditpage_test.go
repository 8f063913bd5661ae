package main

import (
	"bytes"
	"context"
	"fmt"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
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

const hostileText = `<img src="http://127.0.0.1:9/x.png" onerror="document.title='owned'">`

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
				{ID: "rem_a", Message: `</script><script>document.title = "owned"</script>`, State: projection.StateTaken, StateAt: hour + 5, SetAt: 1, Wakes: []*projection.Wake{taken}},
				{ID: "rem_b", Message: hostileText, State: projection.StateRefused, StateAt: 2 * hour, SetAt: 2, NextAt: 2 * hour,
					Wakes: []*projection.Wake{refused}},
			},
			Gaps: []projection.Gap{{From: hour + 1000, To: hour + 60_000, Crash: true}},
		},
		Damage: []journal.Damage{}, zone: time.UTC,
	}
	return written(t, a)
}

// written is the address of an audit's page.
func written(t *testing.T, a *audit) string {
	t.Helper()
	source, err := auditPage(a)
	if err != nil {
		t.Fatal(err)
	}
	h := newHome(t)
	h.write(h.path("page.html"), string(source))
	return "file://" + h.path("page.html")
}

// resize gives the browser's window that width, as a screen or as paper.
func resize(t *testing.T, ctx context.Context, width, height int64, media string) {
	t.Helper()
	_, err := chromedp.Call(ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1})
	if err == nil {
		_, err = chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: media, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "light"}}})
	}
	if err != nil {
		t.Fatal(err)
	}
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
	address := pageOf(t)
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(address)); err != nil {
		t.Fatal(err)
	}
	all := js[string](t, ctx, `document.getElementById("wakes-caption").textContent`)
	set := func(id, value, event string) string {
		return js[string](t, ctx, fmt.Sprintf(`(() => { const e = document.getElementById(%q); e.value = %q; e.dispatchEvent(new Event(%q));
			return document.getElementById("wakes-caption").textContent; })()`, id, value, event))
	}
	filtered := set("wakes-filter", "busy", "input")
	set("wakes-filter", "", "input")
	byResult := set("wakes-state", "dropped", "change")
	set("wakes-state", "", "change")
	js[bool](t, ctx, `document.querySelector("#wakes th button").click() ?? true`)
	sorted := js[string](t, ctx, `document.querySelector("#wakes-rows td").firstChild.data`)
	utc := js[string](t, ctx, `document.querySelector("#wakes-rows tr:last-child td.t[title]").title`)
	reminders := js[string](t, ctx, `document.getElementById("reminders-caption").textContent`)
	label := js[string](t, ctx, `document.querySelector(".lane:last-child span").textContent`)
	hover := js[string](t, ctx, `document.querySelector(".lane:last-child span").title`)
	about := js[string](t, ctx, `document.getElementById("about").textContent`)
	marks := js[string](t, ctx, `[...document.querySelectorAll("#timeline-box [data-state]")].map((e) => e.dataset.state).join()`)
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
		{"those dropped", byResult, "1 of 3 wakes"}, {"sorted by name", sorted, `</script><script>document.title = "owned"</script>`}, {"UTC on hover", utc, "1970-01-01T00:30:00.000Z"},
		{"all reminders", reminders, "2 of 2 reminders"}, {"a row is named by its text", label, hostileText}, {"with its id on hover", hover, "rem_b\n" + hostileText},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", c.what, c.got, c.want)
		}
	}
	if !strings.Contains(about, "1970-01-01 01:00 to 04:00 [Europe/Berlin]") {
		t.Errorf("about: %s", about)
	}
	if marks != "dropped,taken,refused" || zoomed == before || !focused {
		t.Errorf("marks %s, zoomed by the keyboard: %v, focused: %v", marks, zoomed != before, focused)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(complaints) > 0 {
		t.Errorf("the console says: %v", complaints)
	}
	for _, url := range requests {
		if url != address && !strings.HasPrefix(url, "data:") {
			t.Errorf("the page asked for %s", url)
		}
	}
}

// cut is what stands out of the page, or is wider than its box, and may not be scrolled to on paper.
const cut = `[...document.querySelectorAll("main *")].filter((e) => {
	const r = e.getBoundingClientRect();
	return !e.closest("svg") && r.width > 0 && (r.right > innerWidth + .5 || r.left < -.5);
}).map((e) => e.outerHTML.slice(0, 200)).join("\n")`

// tiny is the text that is smaller than 11 pixels as it is shown.
const tiny = `[...document.querySelectorAll("body *")].filter((e) => {
	const own = [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim()), matrix = e.getScreenCTM?.();
	return own && e.getClientRects().length && parseFloat(getComputedStyle(e).fontSize) * (matrix ? matrix.a : 1) < 11;
}).map((e) => e.outerHTML.slice(0, 200)).join("\n")`

// colliding are the times above the timeline that run into the next one, or out of it.
const colliding = `[...document.querySelectorAll(".axis text")].filter((e, i, all) => {
	const end = e.getBoundingClientRect().right;
	return end > (all[i + 1] ?? document.querySelector(".axis svg")).getBoundingClientRect()[i + 1 < all.length ? "left" : "right"];
}).map((e) => e.textContent).join()`

// TestAuditPageFitsItsWindow: on a telephone, a small screen, a large one, and paper.
func TestAuditPageFitsItsWindow(t *testing.T) {
	ctx := browser(t)
	address := written(t, scene(t, hostile...))
	if err := chromedp.Do(ctx, chromedp.Navigate(address)); err != nil {
		t.Fatal(err)
	}
	const paper = 703 // of A4, without its margins
	for _, c := range []struct {
		width int64
		media string
		times int // at least, above the timeline
	}{{390, "screen", 2}, {800, "screen", 3}, {1400, "screen", 5}, {paper, "print", 2}} {
		resize(t, ctx, c.width, 900, c.media)
		if c.media == "print" {
			js[bool](t, ctx, `dispatchEvent(new Event("beforeprint"))`)
		} else {
			js[bool](t, ctx, `dispatchEvent(new Event("resize"))`)
		}
		for _, check := range []struct{ what, expression string }{{"cut off", cut}, {"smaller than 11 pixels", tiny}, {"colliding", colliding}} {
			if check.expression == tiny && c.media == "print" { // paper has more dots
				continue
			}
			if found := js[string](t, ctx, check.expression); found != "" {
				t.Errorf("%d pixels, %s: %s:\n%s", c.width, c.media, check.what, found)
			}
		}
		js[bool](t, ctx, fmt.Sprintf("(scrollTo(0, 0), Object.assign(view, { from: %d, to: %d }), drawTimeline(), true)", 1791810000_000, 1791810200_000)) // little more than three minutes
		if n := js[int](t, ctx, `document.querySelectorAll(".axis text").length`); n == 0 {
			t.Errorf("%d pixels: no time above three minutes", c.width)
		}
		if found := js[string](t, ctx, colliding); found != "" {
			t.Errorf("%d pixels, above three minutes: colliding: %s", c.width, found)
		}
		js[bool](t, ctx, `(zoom("all"), true)`)
		if n := js[int](t, ctx, `document.querySelectorAll(".axis text").length`); n < c.times {
			t.Errorf("%d pixels, %s: %d times above the timeline, want %d", c.width, c.media, n, c.times)
		}
		shows := js[string](t, ctx, `[...document.querySelectorAll("#reminders-rows tr")].find((r) => r.textContent.includes("rem_bill5n8rj4k")).innerText`)
		contains(t, shows, "Pay the electricity bill", "scheduled", "2026-10-15 09:00", "2026-10-12 08:05", "file")
	}
	// Paper: what is not split, and what keeps its colour.
	for _, c := range []struct{ selector, property, want string }{
		{"#wakes-rows tr", "breakInside", "avoid"}, {"#reminders-rows tr", "breakInside", "avoid"}, {".lane", "breakInside", "avoid"}, {"#wakes thead", "breakInside", "avoid"},
		{".legend svg path", "printColorAdjust", "exact"}, {".bars i", "printColorAdjust", "exact"}, {"#timeline-box", "overflow", "visible"}, {"#wakes .tools", "display", "none"},
	} {
		if got := js[string](t, ctx, fmt.Sprintf(`getComputedStyle(document.querySelector(%q))[%q]`, c.selector, c.property)); got != c.want {
			t.Errorf("on paper, %s of %s is %s, want %s", c.property, c.selector, got, c.want)
		}
	}
}

// TestAuditPageIsPrintedWithRoomForItsTimes: the browser says that it prints before it does.
func TestAuditPageIsPrintedWithRoomForItsTimes(t *testing.T) {
	ctx := browser(t)
	if err := chromedp.Do(ctx, chromedp.Navigate(written(t, scene(t)))); err != nil {
		t.Fatal(err)
	}
	resize(t, ctx, 1400, 900, "")
	js[bool](t, ctx, `(addEventListener("beforeprint", () => { window.onPaper = document.querySelectorAll(".axis text").length; }), true)`)
	pdf, err := chromedp.Call(ctx, page.PrintToPDF, page.PrintToPDFParams{PreferCSSPageSize: new(true)})
	if err != nil || !bytes.HasPrefix(pdf.Data, []byte("%PDF-")) {
		t.Fatalf("%d bytes, %v", len(pdf.Data), err)
	}
	onScreen, onPaper := js[int](t, ctx, `document.querySelectorAll(".axis text").length`), js[int](t, ctx, `window.onPaper`)
	if onPaper < 2 || onPaper >= onScreen {
		t.Errorf("%d times on paper, %d on a wide screen", onPaper, onScreen)
	}
}

// TestAuditPicture makes the picture in the documentation anew with -update. Without it, it looks at the one that is there.
func TestAuditPicture(t *testing.T) {
	path := filepath.Join("doc", "audit.png")
	const width, height = 1200, 1116
	if *update {
		ctx := browser(t)
		resize(t, ctx, width, height, "screen")
		if err := chromedp.Do(ctx, chromedp.Navigate(written(t, scene(t)))); err != nil {
			t.Fatal(err)
		}
		picture, err := chromedp.Call(ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, picture.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if size, err := png.DecodeConfig(f); err != nil || size.Width != width || size.Height != height {
		t.Errorf("%s is %d × %d pixels, %v; make it anew: go test ./cmd/heartbeat-mcpl -run TestAuditPicture -update", path, size.Width, size.Height, err)
	}
}
