// Command heartbeat-mcpl wakes AI agents: a stdio MCP server that pushes a periodic heartbeat and the reminders that
// the agent sets itself, out of an append-only journal.
//
// `heartbeat-mcpl --stdio` serves a host; `heartbeat-mcpl try` shows it at work in the terminal.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	_ "time/tzdata" // the time zone database is in the binary (SPEC 1.3)
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	// Writes to a pipe whose reader is gone are errors here, not the end of the process: the journal is closed first.
	signal.Ignore(syscall.SIGPIPE)
	ctx, heeded := untilSignal(context.Background(), os.Interrupt, syscall.SIGTERM)
	if serves(args) { // hosts wait for it: the command tree would cost more than all else at start
		return exitCode(serveHost(ctx, heeded, args), logPrefix, "heartbeat-mcpl")
	}
	root := newRoot()
	root.SetArgs(args)
	out := &checkedWriter{w: os.Stdout}
	root.SetOut(out) // help and completion, whose errors the library passes over
	cmd, err := root.ExecuteContextC(ctx)
	return exitCode(cmp.Or(err, quietly(out.err)), "heartbeat-mcpl: ", cmd.CommandPath())
}

// serves says whether a command line is a host's: --stdio among its flags. Behind a command's name it is that command's word.
func serves(args []string) bool {
	for i := 0; i < len(args) && strings.HasPrefix(args[i], "-") && args[i] != "--"; i++ {
		switch name := strings.TrimPrefix(args[i], "--"); {
		case name == "stdio", name == "stdio=true":
			return true
		case slices.ContainsFunc(settingsTable, func(row setting) bool { return row.flag == name && row.bare == "" }):
			i++ // its value
		}
	}
	return false
}

// exitCode is the process's for the error with which a command ended, which is said on stderr in a line that begins so.
// asked is the command whose help may help.
func exitCode(err error, begin, asked string) int {
	if err == nil {
		return exitOK
	}
	said, hint := err.Error(), "Run '"+asked+" --help' for the commands and flags."
	if begin == logPrefix { // of a server, each of whose lines begins so (SPEC 1.1)
		said, hint = oneLine(said), logPrefix+hint
	}
	fmt.Fprintln(os.Stderr, begin+said)
	if !errors.As(err, new(usageError)) {
		return exitFailed
	}
	fmt.Fprintln(os.Stderr, hint)
	return exitUsage
}

// checkedWriter keeps the error of a write.
type checkedWriter struct {
	w   io.Writer
	err error
}

func (c *checkedWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.err = cmp.Or(c.err, err)
	return n, err
}

// serveHost is the command line of a host: flags alone.
func serveHost(ctx context.Context, heeded <-chan struct{}, args []string) error {
	var s settings
	flags := pflag.NewFlagSet("heartbeat-mcpl", pflag.ContinueOnError)
	flags.SetOutput(io.Discard) // what is wrong is said by run
	flags.Bool("stdio", false, "")
	s.registerServing(flags)
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return newRoot().Help()
	case err != nil:
		return flagError(flags, err)
	case flags.NArg() > 0:
		return usageError{fmt.Errorf("--stdio takes no further words, and was given %q", flags.Arg(0))}
	}
	return serve(ctx, heeded, s)
}

// usageError is a command line that cannot be understood.
type usageError struct{ error }

func newRoot() *cobra.Command {
	var flags settings
	var showVersion bool
	root := &cobra.Command{
		Use:   "heartbeat-mcpl",
		Short: "Wakes AI agents: a heartbeat and reminders over MCP and MCPL",
		Long: "heartbeat-mcpl wakes AI agents. It is a stdio MCP server: on a host that speaks MCPL it pushes a periodic\n" +
			"heartbeat and the reminders that the agent sets through tools. Hosts start it as 'heartbeat-mcpl --stdio'.",
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return noEmptyFlags(cmd) },
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noSuchCommand(cmd, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if showVersion {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "heartbeat-mcpl", version())
				return err
			}
			cmd.SetOut(os.Stderr)
			_ = cmd.Usage() // it writes to stderr alone, and there is nobody else to tell
			return usageError{errors.New("nothing to do: give --stdio to serve a host, or a command")}
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		err = flagError(cmd.Flags(), err)
		if strings.Contains(cmd.Use, "...") {
			err = usageError{fmt.Errorf("%w (in a text, words that begin with a dash stand behind --)", err)}
		}
		return err
	})
	root.Flags().Bool("stdio", false, "serve a host on stdin and stdout")
	// Not by cobra's Version: its text is a template, and one that is linked makes the binary a third larger ([auditPage]).
	root.Flags().BoolVarP(&showVersion, "version", "v", false, "version for heartbeat-mcpl")
	flags.registerServing(root.Flags())
	root.SetHelpCommand(newHelp())
	root.AddCommand(newTry(), newReplay(), newAudit(), newCtl(), newRestore(), newMesh(), newRegister(), newVersion())
	refuseOtherShells(root)
	completeWords(root)
	return root
}

// refuseOtherShells has the library's completion command refuse what is no shell that it knows; it showed its help.
func refuseOtherShells(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	completion, _, err := root.Find([]string{"completion"})
	if err != nil {
		return // the library has none
	}
	for _, shell := range completion.Commands() {
		shell.Args = noArgs
	}
	completion.Args, completion.RunE = nil, func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return usageError{fmt.Errorf("give the shell: completion bash, zsh, fish or powershell, not %q", strings.Join(args, " "))}
	}
}

func newHelp() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Show what a command does, and its flags", ValidArgsFunction: offerCommands,
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil {
				about, rest = cmd.Root(), args
			}
			if len(rest) > 0 {
				return noSuchCommand(about, rest[0])
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

func newTry() *cobra.Command {
	var ways tryWays
	cmd := &cobra.Command{
		Use:   "try [-- COMMAND ARGS...]",
		Short: "Play a host in the terminal and see a wake arrive, in about ten seconds",
		Long: "try plays a host against this server in a temporary folder: the handshake, a reminder set, the wake arriving, and the\n" +
			"events that the journal then holds. It is an MCPL host, which is pushed to; with --wait, --channel or --command one\n" +
			"that speaks MCP alone. With -- COMMAND ARGS it does the same with any stdio server command.",
		Example: "  heartbeat-mcpl try\n  heartbeat-mcpl try --wait\n  heartbeat-mcpl try --channel\n  heartbeat-mcpl try --command cat",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && ways.plain() {
				return usageError{errors.New("--wait, --channel and --command are of this server: give no other command with them")}
			}
			return runTry(cmd.Context(), os.Stdout, args, ways, colorful(os.Stdout))
		},
	}
	cmd.Flags().BoolVar(&ways.wait, "wait", false, "wake by a call that waits: wait_for_wake")
	cmd.Flags().BoolVar(&ways.channel, "channel", false, "wake by messages of a Claude Code channel")
	cmd.Flags().StringVar(&ways.command, "command", "", "wake by a command that gets the text on its stdin, such as cat")
	cmd.MarkFlagsMutuallyExclusive("wait", "channel", "command")
	return cmd
}
