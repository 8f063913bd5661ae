package main

import (
	"errors"
	"fmt"

	"heartbeat-mcpl/rpc/delivery"
)

// The settings of the ways by which wakes go out: the wake command (SPEC 14.4) and the channel (SPEC 14.3).

// wrongCommand says why a text is no command.
func wrongCommand(text string) error {
	if _, err := delivery.Parse(text); err != nil {
		return fmt.Errorf(`%w; give a JSON array such as ["notify-send", "{text}"], or one line such as notify-send {text}`, err)
	}
	return nil
}

// wrongLength says why a text is no length of time.
func wrongLength(text string) error {
	if lengthOf(text) == 0 {
		return errors.New("give a number and its unit, such as 90s or 15m")
	}
	return nil
}

// wrongSwitch says why a text is neither on nor off.
func wrongSwitch(text string) error {
	if text != "on" && text != "off" {
		return errors.New("give on or off")
	}
	return nil
}

// wakeProgram is the program that is started for wakes, nil where there is none.
func (s *settings) wakeProgram() (*delivery.Command, error) {
	if s.wakeCommand == "" {
		return nil, nil
	}
	args, err := delivery.Parse(s.wakeCommand)
	if err != nil {
		return nil, fmt.Errorf("the wake command %q: %w", s.wakeCommand, err)
	}
	return &delivery.Command{Args: args, Timeout: lengthOf(s.wakeTimeout)}, nil
}
