package agents

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

const (
	promptLimit = 10 * time.Second
	firstRetry  = 5 * time.Second
	lastRetry   = 5 * time.Minute
)

// promptText is the fixed text of SPEC 12.5: it says how many messages wait, and never carries one.
func promptText(n int) string {
	return fmt.Sprintf("[heartbeat-mcpl mesh] %d message(s) from other agents wait: call agent_inbox.", n)
}

// prompt wakes the agent in its pane whenever more messages wait than it was told, and again, less and less often, while it
// is not ready.
func (s *Service) prompt(stop <-chan struct{}) {
	waiting, told, missing := 0, 0, false
	retry := time.NewTimer(time.Hour)
	defer retry.Stop()
	wait := firstRetry
	for {
		select {
		case <-stop:
			return
		case waiting = <-s.wake:
			told = min(told, waiting)
			wait = firstRetry
		case <-retry.C:
		}
		s.mu.Lock()
		pane := s.pane
		s.mu.Unlock()
		if pane == "" || waiting <= told || s.o.Host.Pushing() {
			continue
		}
		ctx, cancel := context.WithTimeout(s.ctx, promptLimit)
		err := s.o.Pane.Prompt(ctx, pane, promptText(waiting))
		cancel()
		switch {
		case err == nil:
			told = waiting
			continue
		case errors.Is(err, exec.ErrNotFound):
			if !missing {
				s.o.Log.Warn("herdr is not installed: messages wake nobody in a pane", "err", err)
			}
			missing, told = true, waiting
			continue
		case !errors.Is(err, ErrNotReady):
			s.o.Log.Warn("herdr did not take the prompt", "err", err)
		}
		retry.Reset(wait)
		wait = min(2*wait, lastRetry)
	}
}

// Herdr wakes agents with `herdr agent prompt`.
type Herdr struct{ Command string } // the program; "herdr"

// Prompt runs the one command, its arguments never through a shell.
func (h Herdr) Prompt(ctx context.Context, pane, text string) error {
	out, err := exec.CommandContext(ctx, h.Command, "agent", "prompt", pane, text).CombinedOutput()
	if err == nil {
		return nil
	}
	said := strings.ToLower(string(out))
	if strings.Contains(said, "blocked") || strings.Contains(said, "not ready") || strings.Contains(said, "not_ready") {
		return fmt.Errorf("%w: %w", ErrNotReady, err)
	}
	return fmt.Errorf("herdr agent prompt: %w", err)
}
