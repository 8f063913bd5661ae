package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/projection"
	"heartbeat-mcpl/recovery"
	"heartbeat-mcpl/rpc/agents"
	"heartbeat-mcpl/rpc/text"
)

// openMesh is the mesh that the settings name, nil where they say off.
func (s *settings) openMesh(log *slog.Logger) (agents.Mesh, error) {
	if on, err := s.hasMesh(); !on || err != nil {
		return nil, err
	}
	if s.meshURL != "" {
		return agents.NewNATS(s.meshURL, log)
	}
	dir, err := s.meshFolder()
	if err != nil {
		log.Warn("there is no mesh: " + err.Error())
		return nil, nil
	}
	return agents.NewLocal(recovery.NewMesh(dir, log)), nil
}

// mesher opens the mesh that the settings name, once for each agent; nil where there is none.
func (s *settings) mesher(log *slog.Logger) (func() (agents.Mesh, error), error) {
	if on, err := s.hasMesh(); !on || err != nil {
		return nil, err
	}
	if s.meshURL == "" {
		if _, err := s.meshFolder(); err != nil {
			log.Warn("there is no mesh: " + err.Error())
			return nil, nil
		}
	}
	return func() (agents.Mesh, error) { return s.openMesh(log) }, nil
}

// hasMesh says whether the settings let there be a mesh.
func (s *settings) hasMesh() (bool, error) {
	switch strings.ToLower(s.mesh) {
	case "", "on":
		return true, nil
	case "off":
		return false, nil
	}
	return false, usageError{fmt.Errorf("HEARTBEAT_MESH (or --mesh) is %q: give on or off", s.mesh)}
}

// meshFolder is the folder that the agents of this user on this machine share.
func (s *settings) meshFolder() (string, error) {
	if s.meshDir != "" {
		return s.meshDir, nil
	}
	if state := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "heartbeat-mcpl", "mesh"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", errors.New("the user has no home folder; name one with HEARTBEAT_MESH_DIR")
	}
	return filepath.Join(home, ".local", "state", "heartbeat-mcpl", "mesh"), nil
}

// panes prompts agents in Herdr's panes, where this process runs in one.
func panes() agents.Prompter {
	if os.Getenv("HERDR_ENV") != "1" {
		return nil
	}
	return agents.Herdr{Command: "herdr"}
}

func newMesh() *cobra.Command {
	var s settings
	var asJSON, watch bool
	cmd := &cobra.Command{
		Use: "mesh", Short: "Show which agents are here, what they do, and how many messages wait", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.fromEnvironment()
			if err := s.check(); err != nil {
				return err
			}
			mesh, err := s.openMesh(slog.New(newLogHandler(os.Stderr)))
			if err != nil {
				return err
			}
			if mesh == nil {
				return errors.New("HEARTBEAT_MESH is off, or there is no folder for it")
			}
			defer mesh.Close()
			for {
				if watch && colorful(os.Stdout) {
					fmt.Fprint(os.Stdout, "\x1b[H\x1b[2J")
				}
				if err := showMesh(os.Stdout, mesh, asJSON, s.zone(slog.New(slog.DiscardHandler))); err != nil || !watch {
					return quietly(err)
				}
				select {
				case <-cmd.Context().Done():
					return nil
				case <-time.After(time.Second):
				}
			}
		},
	}
	s.register(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show it anew each second, until interrupted")
	return cmd
}

// meshAgent is one agent as `mesh --json` shows it.
type meshAgent struct {
	ID       string             `json:"agent_id"`
	Role     string             `json:"role"`
	Repo     string             `json:"repo"`
	Caps     []string           `json:"caps"`
	Status   string             `json:"status"`
	StatusAt projection.Instant `json:"statusSince"`
	LastSeen projection.Instant `json:"lastSeen"`
	StaleAt  projection.Instant `json:"staleAt"`
	Waiting  int                `json:"waiting"`
	Ended    bool               `json:"serverEnded"`
	EndedAt  projection.Instant `json:"serverEndedAt"`
}

func showMesh(out io.Writer, mesh agents.Mesh, asJSON bool, zone *time.Location) error {
	here, err := mesh.Agents()
	if err != nil {
		return fmt.Errorf("the mesh did not answer: %w", asItsUser(err))
	}
	all := []meshAgent{}
	for _, a := range here {
		waiting, err := mesh.Waiting(a.ID)
		if err != nil {
			return err
		}
		ended, endedMs := mesh.Ended(a.ID)
		all = append(all, meshAgent{
			ID: a.ID, Role: a.Role, Repo: a.Repo, Caps: append([]string{}, a.Caps...), Status: a.Status, StatusAt: projection.Instant(a.StatusMs),
			LastSeen: projection.Instant(a.LastMs), StaleAt: projection.Instant(a.StaleMs()), Waiting: waiting,
			Ended: ended, EndedAt: projection.Instant(endedMs),
		})
	}
	if asJSON {
		return json.NewEncoder(out).Encode(map[string]any{"agents": all})
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "No agents are here.")
		return err
	}
	w := tabwriter.NewWriter(out, 2, 0, 2, ' ', 0)
	fmt.Fprintln(w, "agent\trole\trepo\tdoes\tfor\tseen\tstale\twaiting\tits server")
	for _, a := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", a.ID, orDash(a.Role), orDash(text.Safe(a.Repo)), orDash(text.Safe(short(a.Status, 60))), since(a.StatusAt), since(a.LastSeen)+" ago",
			time.UnixMilli(int64(a.StaleAt)).In(zone).Format("15:04:05"), a.Waiting, a.server())
	}
	return w.Flush()
}

// server says whether the agent's server has ended.
func (a *meshAgent) server() string {
	switch {
	case a.EndedAt > 0:
		return "ended " + since(a.EndedAt) + " ago"
	case a.Ended:
		return "ended"
	}
	return "-"
}

func since(i projection.Instant) string {
	return text.About(max(0, time.Now().UnixMilli()-int64(i)) / 1000 * 1000)
}

// homeOf tells a server from others: the machine and the journal, without saying which.
func homeOf(journalDir string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	path, err := filepath.Abs(journalDir)
	if err != nil {
		path = journalDir
	}
	return journal.HashBytes([]byte(host + "\x00" + path))
}
