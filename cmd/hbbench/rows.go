package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"heartbeat-mcpl/journal"
)

// row is one measurement: a figure for one run of one server.
type row struct {
	name, about, unit string
	lower             bool // less is better
	run               func(*bench, *target) (float64, error)
	once              bool // of this machine, not of a server
}

var rows = []row{
	{name: "client", about: "what this client reaches against a bare server: status calls a second, 64 outstanding", unit: "/s", run: clientLimit, once: true},
	{name: "bare-start", about: "a bare program started, until it answers initialize", unit: "ms", lower: true, run: bareStart, once: true},
	{name: "fsync", about: "bare fsyncs of a record's size a second, one at a time", unit: "/s", run: fsyncs, once: true},
	{name: "start", about: "process start to initialize answered, nothing there", unit: "ms", lower: true, run: startWith(0)},
	{name: "start-100k", about: "the same with 100,000 reminders", unit: "ms", lower: true, run: startWith(100_000)},
	{name: "first-100k", about: "process start to the first heartbeat_status answered, 100,000 reminders", unit: "ms", lower: true, run: firstCallWith(100_000)},
	{name: "rss", about: "memory, two seconds after initialize", unit: "MiB", lower: true, run: memoryWith(0)},
	{name: "rss-100k", about: "the same with 100,000 reminders", unit: "MiB", lower: true, run: memoryWith(100_000)},
	{name: "status-cpu", about: "CPU time of a heartbeat_status call, 64 outstanding", unit: "us", lower: true, run: statusCPU},
	{name: "add", about: "reminder_add a second, one at a time", unit: "/s", run: addsWith(0, 1)},
	{name: "add-10k", about: "the same with 10,000 reminders", unit: "/s", run: addsWith(10_000, 1)},
	{name: "add-100k", about: "the same with 100,000 reminders", unit: "/s", run: addsWith(100_000, 1)},
	{name: "add-64", about: "reminder_add a second, 64 outstanding", unit: "/s", run: addsWith(0, 64)},
	{name: "attached-status", about: "a status call of an attached session, one at a time: how many times a direct one's time", unit: "x", lower: true, run: attached("heartbeat_status", statusArguments)},
	{name: "attached-add", about: "the same for reminder_add", unit: "x", lower: true, run: attached("reminder_add", addArguments)},
	{name: "idle-attached", about: "CPU of a holder and 50 idle attached sessions together, in percent of a core", unit: "%", lower: true, run: idleAttached},
	{name: "due-1000", about: "1,000 reminders due in the same second: lateness p99, host answering at once", unit: "ms", lower: true, run: thousandDue},
	{name: "idle", about: "CPU while idle, one reminder an hour away, in percent of a core", unit: "%", lower: true, run: idle},
}

const statusArguments = `{}`

const addArguments = `{"message":"Look at the build: is it green? Then tell the team.","inSeconds":90000}`

// home makes a folder with so many reminders in the files that both servers read, and lets the server take them over.
func (b *bench) home(t *target, reminders int) (string, error) {
	key := fmt.Sprint(t.name, "-", reminders)
	made := filepath.Join(b.dir, "template-"+key)
	if _, err := os.Stat(made); err != nil {
		if err := os.MkdirAll(made, 0o700); err != nil {
			return "", err
		}
		if reminders > 0 {
			if err := writeReminders(filepath.Join(made, "heartbeat-reminders.json"), reminders); err != nil {
				return "", err
			}
		}
		c, _, err := begin(t, made)
		if err != nil {
			return "", err
		}
		if err := c.await(c.tool("reminder_list", `{}`)); err != nil {
			return "", err
		}
		if err := c.end(); err != nil {
			return "", err
		}
	}
	dir, err := os.MkdirTemp(b.dir, "run-")
	if err != nil {
		return "", err
	}
	return dir, os.CopyFS(dir, os.DirFS(made))
}

func writeReminders(path string, n int) error {
	type entry struct {
		ID           string `json:"id"`
		Message      string `json:"message"`
		CreatedAt    int64  `json:"createdAt"`
		FireAt       int64  `json:"fireAt"`
		EverySeconds any    `json:"everySeconds"`
	}
	all := make([]entry, n)
	now := time.Now().UnixMilli()
	for i := range all {
		all[i] = entry{fmt.Sprintf("rem_%08d", i), "Look at the build: is it green? Then tell the team.", now, now + 86_400_000 + int64(i), nil}
	}
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// with runs f on a server whose home has so many reminders.
func (b *bench) with(t *target, reminders int, f func(*client, time.Duration) (float64, error)) (float64, error) {
	dir, err := b.home(t, reminders)
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	return in(t, dir, f)
}

func in(t *target, dir string, f func(*client, time.Duration) (float64, error)) (float64, error) {
	c, took, err := begin(t, dir)
	if err != nil {
		return 0, err
	}
	figure, err := f(c, took)
	if err != nil {
		c.kill()
		return 0, err
	}
	return figure, c.end()
}

func startWith(reminders int) func(*bench, *target) (float64, error) {
	return func(b *bench, t *target) (float64, error) {
		return b.with(t, reminders, func(_ *client, took time.Duration) (float64, error) { return took.Seconds() * 1000, nil })
	}
}

// firstCallWith measures what initialize leaves out: a server may answer that before it has read its files.
func firstCallWith(reminders int) func(*bench, *target) (float64, error) {
	return func(b *bench, t *target) (float64, error) {
		return b.with(t, reminders, func(c *client, _ time.Duration) (float64, error) {
			err := c.await(c.tool("heartbeat_status", `{}`))
			return time.Since(c.start).Seconds() * 1000, err
		})
	}
}

// settle is how long a server runs before its memory is read: what start-up took may be given back until then.
const settle = 2 * time.Second

func memoryWith(reminders int) func(*bench, *target) (float64, error) {
	return func(b *bench, t *target) (float64, error) {
		return b.with(t, reminders, func(c *client, _ time.Duration) (float64, error) {
			if err := c.await(c.tool("heartbeat_status", `{}`)); err != nil {
				return 0, err
			}
			time.Sleep(settle)
			return c.rss()
		})
	}
}

func statusCPU(b *bench, t *target) (float64, error) {
	const calls = 20_000
	return b.with(t, 0, func(c *client, _ time.Duration) (float64, error) {
		if _, _, err := c.many(times(2000), 64, "heartbeat_status", `{}`); err != nil { // both are warm then
			return 0, err
		}
		before, err := c.cpu()
		if err != nil {
			return 0, err
		}
		if _, _, err := c.many(times(calls), 64, "heartbeat_status", `{}`); err != nil {
			return 0, err
		}
		after, err := c.cpu()
		return (after - before).Seconds() * 1e6 / calls, err
	})
}

// addsWith measures for two seconds: long enough for views to be written meanwhile.
func addsWith(reminders, outstanding int) func(*bench, *target) (float64, error) {
	const measured = 2 * time.Second
	return func(b *bench, t *target) (float64, error) {
		return b.with(t, reminders, func(c *client, _ time.Duration) (float64, error) {
			if err := c.open(); err != nil {
				return 0, err
			}
			if _, _, err := c.many(times(8*outstanding), outstanding, "reminder_add", addArguments); err != nil {
				return 0, err
			}
			end := time.Now().Add(measured)
			n, took, err := c.many(func(int) bool { return time.Now().Before(end) }, outstanding, "reminder_add", addArguments)
			return float64(n) / took.Seconds(), err
		})
	}
}

var reminderID = regexp.MustCompile(`rem_[0-9a-z_]+`)

func thousandDue(b *bench, t *target) (float64, error) {
	return b.with(t, 0, func(c *client, _ time.Duration) (float64, error) {
		if err := c.open(); err != nil {
			return 0, err
		}
		return c.due(1000, 8*time.Second)
	})
}

// due sets so many reminders for the same second, after the delay, and measures when each arrives: how late 99 of 100 are at
// most, in ms.
func (c *client) due(reminders int, delay time.Duration) (float64, error) {
	arrived := make(chan struct {
		id string
		at time.Time
	}, reminders)
	c.mu.Lock()
	c.pushed = func(line []byte, at time.Time) {
		arrived <- struct {
			id string
			at time.Time
		}{string(reminderID.Find(line)), at}
	}
	c.mu.Unlock()
	target := time.Now().Add(delay)
	due := map[string]time.Time{}
	for range reminders {
		in := time.Until(target)
		sent := time.Now()
		line, err := c.answer(c.tool("reminder_add", `{"message":"due with many others","inSeconds":`+strconv.FormatFloat(in.Seconds(), 'f', 6, 64)+`}`))
		if err != nil {
			return 0, err
		}
		due[string(reminderID.Find(line))] = sent.Add(in)
	}
	var late []float64
	for range reminders {
		select {
		case a := <-arrived:
			late = append(late, a.at.Sub(due[a.id]).Seconds()*1000)
		case <-time.After(time.Minute):
			return 0, fmt.Errorf("%d of %d pushes came", len(late), reminders)
		}
	}
	slices.Sort(late)
	return late[len(late)*99/100-1], nil
}

func idle(b *bench, t *target) (float64, error) {
	const watched = 10 * time.Second
	return b.with(t, 0, func(c *client, _ time.Duration) (float64, error) {
		if err := c.open(); err != nil {
			return 0, err
		}
		if err := c.await(c.tool("reminder_add", `{"message":"x","inSeconds":3600}`)); err != nil {
			return 0, err
		}
		time.Sleep(2 * time.Second)
		before, err := c.cpu()
		if err != nil {
			return 0, err
		}
		time.Sleep(watched)
		after, err := c.cpu()
		return (after - before).Seconds() / watched.Seconds() * 100, err
	})
}

func bareTarget() (*target, error) {
	self, err := os.Executable()
	return &target{name: "bare", command: []string{self, "--bare"}}, err
}

func clientLimit(b *bench, _ *target) (float64, error) {
	t, err := bareTarget()
	if err != nil {
		return 0, err
	}
	return in(t, b.dir, func(c *client, _ time.Duration) (float64, error) {
		const calls = 50_000
		_, took, err := c.many(times(calls), 64, "heartbeat_status", `{}`)
		return calls / took.Seconds(), err
	})
}

func bareStart(b *bench, _ *target) (float64, error) {
	t, err := bareTarget()
	if err != nil {
		return 0, err
	}
	return in(t, b.dir, func(_ *client, took time.Duration) (float64, error) { return took.Seconds() * 1000, nil })
}

// fsyncs appends records of a reminder's size to a file, each with an fsync.
func fsyncs(b *bench, _ *target) (float64, error) {
	f, err := os.CreateTemp(b.dir, "fsync-")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	record := bytes.Repeat([]byte("x"), 150)
	n := 0
	begun := time.Now()
	for ; time.Since(begun) < 2*time.Second; n++ {
		if _, err := f.Write(record); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
	}
	return float64(n) / time.Since(begun).Seconds(), nil
}

// journalWith makes a folder whose journal holds so many events: a heartbeat each minute, taken each time.
func (b *bench) journalWith(t *target, events int) (string, error) {
	dir, err := os.MkdirTemp(b.dir, "events-")
	if err != nil {
		return "", err
	}
	begun := time.Now().UnixMilli() - int64(events)*30_000
	l, err := journal.Create(filepath.Join(dir, "heartbeat-journal"), journal.Begin{ID: journal.NewID().String(), Major: journal.FirstMajor, Minor: journal.Minor}, begun, journal.LogOptions{})
	if err != nil {
		return "", err
	}
	for l.Last() < uint64(events) {
		batch := make([]journal.Event, 0, 5000)
		for i := range cap(batch) {
			index := l.Last() + 1 + uint64(i)
			at := begun + int64(index)*30_000
			body := journal.Body(&journal.Fire{By: journal.ByTimer, EventID: fmt.Sprint("evt_", index), Due: at})
			if index%2 == 1 {
				body = &journal.Ack{EventID: fmt.Sprint("evt_", index-1), InferenceID: "inf"}
			}
			batch = append(batch, journal.Event{Index: index, Time: at, Kind: body.Kind(), Body: body})
		}
		if err := l.Append(batch); err != nil {
			return "", err
		}
	}
	if err := l.Close(); err != nil {
		return "", err
	}
	_, err = in(t, dir, func(c *client, _ time.Duration) (float64, error) { return 0, c.await(c.tool("heartbeat_status", `{}`)) })
	return dir, err
}

// attached measures calls of a session that is attached to another server on the same files, beside those of that server's own.
func attached(tool, arguments string) func(*bench, *target) (float64, error) {
	const calls = 500
	return func(b *bench, t *target) (float64, error) {
		return b.beside(t, 1, func(holder *client, others []*client) (float64, error) {
			var ratios []float64
			for range 3 { // in turn, so that noise falls on both
				_, direct, err := holder.many(times(calls), 1, tool, arguments)
				if err != nil {
					return 0, err
				}
				_, through, err := others[0].many(times(calls), 1, tool, arguments)
				if err != nil {
					return 0, err
				}
				ratios = append(ratios, through.Seconds()/direct.Seconds())
			}
			return median(ratios), nil
		})
	}
}

func idleAttached(b *bench, t *target) (float64, error) {
	const sessions, watched = 50, 10 * time.Second
	return b.beside(t, sessions, func(holder *client, others []*client) (float64, error) {
		used := func() (total time.Duration, err error) {
			for _, c := range append([]*client{holder}, others...) {
				one, err := c.cpu()
				if err != nil {
					return 0, err
				}
				total += one
			}
			return total, nil
		}
		time.Sleep(settle)
		before, err := used()
		if err != nil {
			return 0, err
		}
		time.Sleep(watched)
		after, err := used()
		return (after - before).Seconds() / watched.Seconds() * 100, err
	})
}

// beside runs f on a server and so many further ones on the same files, each ready.
func (b *bench) beside(t *target, n int, f func(holder *client, others []*client) (float64, error)) (float64, error) {
	return b.with(t, 0, func(holder *client, _ time.Duration) (figure float64, err error) {
		if err := holder.await(holder.tool("heartbeat_status", `{}`)); err != nil {
			return 0, err
		}
		var others []*client
		defer func() {
			for _, c := range others {
				if ended := c.end(); err == nil {
					err = ended
				}
			}
		}()
		for range n {
			c, _, err := begin(t, holder.dir)
			if err != nil {
				return 0, err
			}
			others = append(others, c)
			if err := c.await(c.tool("heartbeat_status", `{}`)); err != nil {
				return 0, err
			}
		}
		return f(holder, others)
	})
}
