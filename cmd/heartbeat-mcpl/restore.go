package main

import (
	"errors"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"heartbeat-mcpl/rpc/tools"
)

func newRestore() *cobra.Command {
	c := &ctl{}
	var at string
	var yes bool
	cmd := &cobra.Command{
		Use:   "restore --at TIME|INDEX",
		Short: "Go back to the settings and reminders of an earlier time",
		Long: "restore shows what would change to bring settings and reminders back to what they were at an event of the journal, or at a\n" +
			"time. With --yes it does so: the changes are appended to the journal as done by \"cli\", so this can be taken back, too. It\n" +
			"works beside a running server and without one. Recurring reminders go on at their next time; a one-shot that comes back and\n" +
			"is past comes at once.\n\n" +
			"A time is ISO 8601 (2026-10-10T09:00, in the agent's zone), or a length before now (90m, 36h, 7d). replay shows the events.",
		Example: "  heartbeat-mcpl restore --at 2026-10-10T09:00\n" +
			"  heartbeat-mcpl restore --at 42 --yes",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := noEmptyFlags(cmd); err != nil {
				return err
			}
			if at == "" {
				return usageError{errors.New("say to when: --at TIME, or --at INDEX of an event; replay shows them")}
			}
			return quietly(c.restore(at, yes))
		},
	}
	c.register(cmd.Flags())
	cmd.Flags().StringVar(&at, "at", "", "the time, or the index of the event")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do it; without it, what would change is shown")
	cmd.Flags().BoolVar(&c.json, "json", false, "the answer as JSON")
	return cmd
}

func (c *ctl) restore(at string, yes bool) error {
	c.fromEnvironment()
	if err := someJournal(c.journalDir); err != nil {
		return err
	}
	index, err := indexAt(c.journalDir, at, c.agentsZone(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	return c.do(os.Stdout, tools.Restore, map[string]any{"at": index, "apply": yes})
}
