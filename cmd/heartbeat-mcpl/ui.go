package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// Everything that people read in a terminal goes through a ui. Its rules:
//   - stdout carries results, stderr carries complaints, which begin "heartbeat-mcpl: ";
//   - colour only on a terminal, and never with NO_COLOR set or TERM=dumb; no meaning is in colour alone;
//   - no cursor tricks: what is printed stays, so that a transcript reads like the screen;
//   - one thought a line; a step that is done begins with its mark, what belongs to it is indented below.
type ui struct {
	out   io.Writer
	color bool
}

// The colours, as SGR codes.
const (
	bold   = "1"
	dim    = "2"
	green  = "32"
	yellow = "33"
	red    = "31"
)

// colorful says whether f may be written to in colour.
func colorful(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

func (u ui) paint(code, text string) string {
	if !u.color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// title begins a part.
func (u ui) title(text string) { fmt.Fprintf(u.out, "\n%s\n", u.paint(bold, text)) }

// done is a step that went well.
func (u ui) done(format string, v ...any) {
	fmt.Fprintf(u.out, "%s %s\n", u.paint(green, "ok"), fmt.Sprintf(format, v...))
}

// odd is a step that did not go as expected.
func (u ui) odd(format string, v ...any) {
	fmt.Fprintf(u.out, "%s %s\n", u.paint(yellow, "!!"), fmt.Sprintf(format, v...))
}

// detail belongs to the step above. Text of several lines stays indented.
func (u ui) detail(format string, v ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, v...), "\n", "\n     ")
	fmt.Fprintf(u.out, "     %s\n", u.paint(dim, text))
}

// line is plain text.
func (u ui) line(format string, v ...any) { fmt.Fprintf(u.out, format+"\n", v...) }

// bad is something that is at fault.
func (u ui) bad(format string, v ...any) {
	fmt.Fprintf(u.out, "%s %s\n", u.paint(red, "!!"), fmt.Sprintf(format, v...))
}
