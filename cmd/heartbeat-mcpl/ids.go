package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"heartbeat-mcpl/journal"
	"heartbeat-mcpl/recovery"
	"heartbeat-mcpl/rpc/text"
	"heartbeat-mcpl/rpc/tools"
)

// mostNamed is how many ids a complaint names.
const mostNamed = 10

// named is a reminder as somebody who types its id sees it.
type named struct{ id, message string }

// openReminders are those that the journal in dir holds, nil where it cannot be read.
func openReminders(dir string) []named {
	state, err := recovery.Peek(dir)
	if err != nil {
		return nil
	}
	var open []named
	for _, r := range state.Reminders() {
		open = append(open, named{r.ID, r.Message})
	}
	return open
}

// knownReminders are all of which the journal in dir tells, also those that are gone.
func knownReminders(dir string) ([]named, error) {
	known := map[string]string{}
	for _, r := range openReminders(dir) {
		known[r.id] = r.message
	}
	scanner, err := journal.NewScanner(dir)
	if err != nil {
		return nil, notThere(err, dir)
	}
	for scanner.Next() {
		e := scanner.Event()
		id := e.Reminder()
		if id == "" {
			continue
		}
		message := known[id]
		if add, ok := e.Body.(*journal.Add); ok {
			message = add.Message
		}
		known[id] = message
	}
	all := make([]named, 0, len(known))
	for _, id := range slices.Sorted(maps.Keys(known)) {
		all = append(all, named{id, known[id]})
	}
	return all, scanner.Err()
}

// pick is the id that was typed: a whole one, or the first letters of one alone. Another is an error that names those that are near.
func pick(typed string, all []named) (string, error) {
	var begin []named
	for _, r := range all {
		if r.id == typed {
			return typed, nil
		}
		if strings.HasPrefix(r.id, typed) {
			begin = append(begin, r)
		}
	}
	switch {
	case len(begin) == 1 && typed != "":
		return begin[0].id, nil
	case len(begin) > 1:
		return "", errors.New(listed(fmt.Sprintf("%d ids begin with %s; give more of one", len(begin), text.Quote(typed)), begin))
	case len(all) == 0:
		return "", fmt.Errorf("there is no reminder %s; there is none at all", text.Quote(typed))
	}
	ids := make([]string, len(all))
	message := map[string]string{}
	for i, r := range all {
		ids[i], message[r.id] = r.id, r.message
	}
	var near []named
	for _, id := range tools.NearestOf(typed, ids, 3) {
		near = append(near, named{id, message[id]})
	}
	return "", errors.New(listed("there is no reminder "+text.Quote(typed)+"; the nearest", near))
}

// mostMessage is how much of a message is shown beside an id, in letters.
const mostMessage = 36

// listed is a sentence with reminders below it, a line each.
func listed(sentence string, reminders []named) string {
	var b strings.Builder
	b.WriteString(sentence + ":")
	for _, r := range reminders[:min(mostNamed, len(reminders))] {
		fmt.Fprintf(&b, "\n  %s  %s", text.Safe(r.id), text.Quote(short(r.message, mostMessage)))
	}
	if more := len(reminders) - mostNamed; more > 0 {
		fmt.Fprintf(&b, "\n  and %d more", more)
	}
	return b.String()
}

// resolve is the id of a reminder of which the journal in dir tells.
func resolve(typed, dir string) (string, error) {
	if typed == "" {
		return "", nil
	}
	known, err := knownReminders(dir)
	if err != nil {
		return "", err
	}
	return pick(typed, known)
}
