package main

import (
	"strings"

	"github.com/rivo/uniseg"
)

// cutColumns is text in at most so many columns of a terminal, of which many characters take two and some none.
func cutColumns(text string, columns int) string {
	if uniseg.StringWidth(text) <= columns {
		return text
	}
	var b strings.Builder
	used := 0
	for g := uniseg.NewGraphemes(text); g.Next(); {
		if used += g.Width(); used >= columns { // one stays for the mark
			break
		}
		b.WriteString(g.Str())
	}
	return strings.TrimRight(b.String(), " ") + "…"
}

// fit is text in exactly so many columns: cut, or filled up with spaces.
func fit(text string, columns int) string {
	text = cutColumns(text, columns)
	return text + strings.Repeat(" ", max(0, columns-uniseg.StringWidth(text)))
}

// wrap prints a sentence that is broken between words, and indented.
func (u ui) wrap(width int, sentence string) {
	line := " "
	for _, word := range strings.Fields(sentence) {
		if line != " " && uniseg.StringWidth(line+" "+word) > width {
			u.line("%s", line)
			line = "   "
		}
		line += " " + word
	}
	u.line("%s", line)
}

// column is one of a table: its title and a cell for each row.
type column struct {
	title string
	cells []string
	room  int                      // it is left out where the first column would have less room than this
	color func(cell string) string // of a cell; nil: none
}

const columnGap = 2

// table prints rows that do not break in a terminal of that width. The first column has what room is left, and is cut; the
// others are whole, and left out where there is no room for them.
func (u ui) table(width int, first column, others ...column) {
	room := width - columnGap
	var shown []column
	for _, c := range others {
		if left := room - columnGap - c.width(); left >= min(c.room, first.width()) {
			shown, room = append(shown, c), left
		}
	}
	room = max(1, min(room, first.width()))
	u.row(fit(first.title, room), shown, func(c column) string { return c.title })
	for i, cell := range first.cells {
		u.row(fit(cell, room), shown, func(c column) string { return c.cells[i] })
	}
}

// row prints one line of a table.
func (u ui) row(first string, others []column, cell func(column) string) {
	line := strings.Repeat(" ", columnGap) + first
	for i, c := range others {
		text, filler := cell(c), ""
		if i < len(others)-1 {
			filler = strings.Repeat(" ", c.width()-uniseg.StringWidth(text))
		}
		if c.color != nil && c.color(text) != "" {
			text = u.paint(c.color(text), text)
		}
		line += strings.Repeat(" ", columnGap) + text + filler
	}
	u.line("%s", strings.TrimRight(line, " "))
}

// width is that of the column's widest cell.
func (c *column) width() int {
	w := uniseg.StringWidth(c.title)
	for _, cell := range c.cells {
		w = max(w, uniseg.StringWidth(cell))
	}
	return w
}
