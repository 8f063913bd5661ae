package tools

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Restore is what a person can ask for beside the tools, at the command line alone: to go back to the state at an event (SPEC 2.9).
const Restore = "restore"

// RestoreArgs are what it takes.
type RestoreArgs struct {
	At    uint64 `json:"at"`    // index of an event
	Apply bool   `json:"apply"` // false: only say what would change
}

// ParseRestore reads them.
func ParseRestore(arguments json.RawMessage) (args RestoreArgs, err error) {
	if err := json.Unmarshal(arguments, &args); err != nil {
		return args, fmt.Errorf("restore: %w", err)
	}
	if args.At == 0 {
		return args, errors.New("restore needs the index of an event")
	}
	return args, nil
}
