package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
)

// bench is one run.
type bench struct {
	dir     string
	rounds  int
	servers []*target
}

// result is a row's figures, of each server.
type result struct {
	Row     string               `json:"row"`
	About   string               `json:"about"`
	Unit    string               `json:"unit"`
	Lower   bool                 `json:"lessIsBetter"`
	Figures map[string][]float64 `json:"figures"` // by server; "machine" for rows of the machine
}

// measure runs the rows, the servers in turn.
func (b *bench) measure(only []string) ([]result, error) {
	var results []result
	for _, r := range rows {
		if len(only) > 0 && !slices.Contains(only, r.name) {
			continue
		}
		res := result{Row: r.name, About: r.about, Unit: r.unit, Lower: r.lower, Figures: map[string][]float64{}}
		for range b.rounds {
			for _, t := range b.servers {
				name := t.name
				if r.once {
					name = "machine"
				}
				figure, err := r.run(b, t)
				if err != nil {
					return nil, fmt.Errorf("%s of %s: %w", r.name, name, err)
				}
				res.Figures[name] = append(res.Figures[name], figure)
				if r.once {
					break
				}
			}
		}
		fmt.Fprintf(os.Stderr, "%s done\n", r.name)
		results = append(results, res)
	}
	return results, nil
}

func median(figures []float64) float64 {
	s := slices.Sorted(slices.Values(figures))
	if len(s) == 0 {
		return 0
	}
	if len(s)%2 == 1 {
		return s[len(s)/2]
	}
	return (s[len(s)/2-1] + s[len(s)/2]) / 2
}

// printTable prints medians with their spread, and the ratio of A to B.
func printTable(out io.Writer, servers []*target, results []result) error {
	w := tabwriter.NewWriter(out, 2, 0, 2, ' ', 0)
	fmt.Fprintln(w, "row\tA (least-most)\tB (least-most)\tA/B\twhat")
	for _, r := range results {
		if m := r.Figures["machine"]; m != nil {
			fmt.Fprintf(w, "%s\t%s\t\t\t%s\n", r.Row, spread(m, r.Unit), r.About)
			continue
		}
		ratio := ""
		if b := median(r.Figures["B"]); b > 0 {
			ratio = fmt.Sprintf("%.3g", median(r.Figures["A"])/b)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Row, spread(r.Figures["A"], r.Unit), spread(r.Figures["B"], r.Unit), ratio, r.About)
	}
	for _, s := range servers {
		fmt.Fprintf(w, "\n%s: %v\n", s.name, s.command)
	}
	return w.Flush()
}

func spread(figures []float64, unit string) string {
	if len(figures) == 0 {
		return ""
	}
	return fmt.Sprintf("%.4g %s (%.3g-%.3g)", median(figures), unit, slices.Min(figures), slices.Max(figures))
}
