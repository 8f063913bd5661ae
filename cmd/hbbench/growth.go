package main

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/guptarohit/asciigraph"
)

// curve is how some figures grow with what is there.
type curve struct {
	by      string // what grows
	sizes   []int
	columns []string // what is measured at each size
	run     func(b *bench, t *target, size int) ([]float64, error)
}

var curves = []curve{
	{
		by: "reminders", sizes: []int{0, 1000, 10_000, 100_000, 1_000_000},
		columns: []string{"start, ms", "add, us", "cancel, us", "status, us", "list of 20, us", "fire, ms late", "memory, MiB"}, run: (*bench).byReminders,
	},
	{
		by: "events in the journal", sizes: []int{0, 10_000, 100_000, 1_000_000, 5_000_000},
		columns: []string{"start, ms", "disk, MiB"}, run: (*bench).byEvents,
	},
}

// grown is a curve's figures: the medians of the rounds, a row a size.
type grown struct {
	Server  string      `json:"server"`
	By      string      `json:"by"`
	Sizes   []int       `json:"sizes"`
	Columns []string    `json:"columns"`
	Figures [][]float64 `json:"figures"`
}

// growth measures the curves up to a size.
func (b *bench) growth(most int) ([]grown, error) {
	var all []grown
	for _, c := range curves {
		for _, t := range b.servers {
			g := grown{Server: t.name, By: c.by, Columns: c.columns}
			for _, n := range c.sizes {
				if n > most {
					break
				}
				figures, err := b.median(func() ([]float64, error) { return c.run(b, t, n) })
				if err != nil {
					return nil, fmt.Errorf("%d %s: %w", n, c.by, err)
				}
				g.Sizes, g.Figures = append(g.Sizes, n), append(g.Figures, figures)
				fmt.Fprintf(os.Stderr, "%s: %d %s done\n", t.name, n, c.by)
			}
			all = append(all, g)
		}
	}
	return all, nil
}

// median is each figure's, of all rounds.
func (b *bench) median(run func() ([]float64, error)) ([]float64, error) {
	var rounds [][]float64
	for range b.rounds {
		figures, err := run()
		if err != nil {
			return nil, err
		}
		rounds = append(rounds, figures)
	}
	medians := make([]float64, len(rounds[0]))
	for i := range medians {
		var one []float64
		for _, figures := range rounds {
			one = append(one, figures[i])
		}
		medians[i] = median(one)
	}
	return medians, nil
}

// calls is how many calls a figure of a curve is the mean of.
const calls = 500

// byReminders are the figures of one server with so many reminders.
func (b *bench) byReminders(t *target, reminders int) (figures []float64, err error) {
	_, err = b.with(t, reminders, func(c *client, took time.Duration) (float64, error) {
		figures = append(figures, took.Seconds()*1000)
		if err := c.open(); err != nil {
			return 0, err
		}
		if err := c.await(c.tool("heartbeat_status", `{}`)); err != nil { // everything is read then
			return 0, err
		}
		var ids []string
		add := func() error {
			line, err := c.answer(c.tool("reminder_add", addArguments))
			ids = append(ids, string(reminderID.Find(line)))
			return err
		}
		for _, call := range []func() error{
			add,
			func() error {
				id := ids[len(ids)-1]
				ids = ids[:len(ids)-1]
				return c.await(c.tool("reminder_cancel", fmt.Sprintf(`{"id":%q}`, id)))
			},
			func() error { return c.await(c.tool("heartbeat_status", `{}`)) },
			func() error { return c.await(c.tool("reminder_list", `{"limit":20}`)) },
		} {
			begun := time.Now()
			for range calls {
				if err := call(); err != nil {
					return 0, err
				}
			}
			figures = append(figures, time.Since(begun).Seconds()*1e6/calls)
		}
		late, err := c.due(100, 2*time.Second)
		if err != nil {
			return 0, err
		}
		time.Sleep(settle)
		memory, err := c.rss()
		figures = append(figures, late, memory)
		return 0, err
	})
	return figures, err
}

// byEvents are the figures of a server on a journal with so many events.
func (b *bench) byEvents(t *target, events int) ([]float64, error) {
	dir, err := b.journalWith(t, events)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	start, err := in(t, dir, func(_ *client, took time.Duration) (float64, error) { return took.Seconds() * 1000, nil })
	if err != nil {
		return nil, err
	}
	size, err := sizeOf(dir)
	return []float64{start, float64(size) / (1 << 20)}, err
}

// sizeOf is how much the files in a folder hold, in bytes.
func sizeOf(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	})
	return total, err
}

// printGrowth prints the figures of each curve, and draws each column.
func printGrowth(out io.Writer, all []grown) error {
	for _, g := range all {
		w := tabwriter.NewWriter(out, 2, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(w, "%s\t", g.By)
		for _, column := range g.Columns {
			fmt.Fprintf(w, "%s\t", column)
		}
		fmt.Fprintln(w)
		for i, n := range g.Sizes {
			fmt.Fprintf(w, "%d\t", n)
			for _, figure := range g.Figures[i] {
				fmt.Fprintf(w, "%.3g\t", figure)
			}
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "(server %s)\n\n", g.Server)
		if err := w.Flush(); err != nil {
			return err
		}
		for i, column := range g.Columns {
			var figures []float64
			for _, row := range g.Figures {
				figures = append(figures, row[i])
			}
			if slices.Max(figures) > 0 {
				fmt.Fprintln(out, asciigraph.Plot(figures, asciigraph.Height(5), asciigraph.Width(50), asciigraph.LowerBound(0), asciigraph.Caption(column+", by "+g.By)))
				fmt.Fprintln(out)
			}
		}
	}
	return nil
}

func asJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
