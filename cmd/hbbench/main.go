// Command hbbench measures stdio heartbeat servers: any command, or two side by side in one run (A B A B), so that noise of
// the machine falls on both. It speaks plain JSON-RPC lines and knows nothing of the server's insides; only journals with
// millions of events are made with this project's own packages.
//
//	go run ./cmd/hbbench -a "heartbeat-mcpl --stdio" -b "node /path/to/heartbeat-mcpl/dist/src/index.js --stdio"
//
// It is never the bottleneck: the row "client" is what it reaches against a server that answers each line at once.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "--bare" {
		bare()
		return
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "hbbench:", err)
		os.Exit(1)
	}
}

func run() error {
	a := flag.String("a", "", "the command of server A; this program's own server where it is left out")
	b := flag.String("b", "", "the command of server B; none where it is left out")
	rounds := flag.Int("rounds", 5, "how often each row is measured for each server")
	only := flag.String("rows", "", "only these rows, by name, comma-separated")
	inJSON := flag.Bool("json", false, "results as JSON")
	growth := flag.Bool("growth", false, "the growth curves in place of the table: by reminders and by events")
	most := flag.Int("most", 1_000_000, "with -growth, how many reminders or events at most")
	list := flag.Bool("list", false, "list the rows")
	flag.Parse()
	if *list {
		for _, r := range rows {
			fmt.Printf("%-14s %s\n", r.name, r.about)
		}
		return nil
	}
	dir, err := os.MkdirTemp("", "hbbench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bench := &bench{dir: dir, rounds: max(1, *rounds)}
	for i, command := range []string{*a, *b} {
		words := strings.Fields(command)
		if len(words) == 0 {
			if i == 1 {
				break
			}
			if words, err = ownServer(dir); err != nil {
				return err
			}
		}
		bench.servers = append(bench.servers, &target{name: string(rune('A' + i)), command: words})
	}
	if *growth {
		grown, err := bench.growth(*most)
		if err != nil {
			return err
		}
		if *inJSON {
			return asJSON(os.Stdout, grown)
		}
		return printGrowth(os.Stdout, grown)
	}
	results, err := bench.measure(strings.FieldsFunc(*only, func(r rune) bool { return r == ',' }))
	if err != nil {
		return err
	}
	if *inJSON {
		return asJSON(os.Stdout, results)
	}
	return printTable(os.Stdout, bench.servers, results)
}
