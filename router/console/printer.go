package console

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// column is one of a table's.
type column struct {
	head  string
	right bool // aligned right
	drop  int  // the column with the highest is left out first when a terminal is too narrow; 0: never
}

// tableRow is a line of cells; level gives its colour.
type tableRow struct {
	level string
	cells []string
}

// printer writes lines and aligned tables, remembering the first error.
type printer struct {
	w    io.Writer
	look Look
	err  error
}

func (p *printer) line(text string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, text+"\n")
	}
}

// colors are those of the levels; headings are faint.
var colors = map[string]string{LevelOK: "32", LevelWarn: "33", LevelBad: "31;1", "head": "2"}

func (p *printer) colored(level, text string) string {
	if code := colors[level]; p.look.Color && code != "" && text != "" {
		return "\x1b[" + code + "m" + text + "\x1b[0m"
	}
	return text
}

// wrapped writes a sentence within the width, further lines indented.
func (p *printer) wrapped(indent, level, format string, args ...any) {
	text := printable(fmt.Sprintf(format, args...))
	for p.look.Width > len(indent)+20 && utf8.RuneCountInString(text) > p.look.Width {
		runes := []rune(text)
		at := strings.LastIndex(string(runes[:p.look.Width+1]), " ")
		if at <= len(indent) {
			at = strings.Index(text[len(indent):], " ") + len(indent)
			if at < len(indent) {
				break // one long word
			}
		}
		p.line(p.colored(level, strings.TrimRight(text[:at], " ")))
		text = indent + strings.TrimLeft(text[at:], " ")
	}
	p.line(p.colored(level, text))
}

// table prints columns two spaces apart. On a terminal it shows the first rows
// and the columns that fit; what still is too wide is shortened in its middle.
func (p *printer) table(columns []column, rows []tableRow) {
	more := 0
	if p.look.Width > 0 && !p.look.All && len(rows) > shortList {
		more, rows = len(rows)-shortList, rows[:shortList]
	}
	widths := make([]int, len(columns))
	for i, c := range columns {
		widths[i] = utf8.RuneCountInString(c.head)
		for _, row := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row.cells[i]))
		}
	}
	if p.look.Width > 0 {
		fit(columns, widths, p.look.Width)
	}
	head := tableRow{level: "head"}
	for _, c := range columns {
		head.cells = append(head.cells, c.head)
	}
	p.row(columns, widths, head)
	for _, row := range rows {
		p.row(columns, widths, row)
	}
	if more > 0 {
		p.line(p.colored("head", fmt.Sprintf("… %d more; --all shows them", more)))
	}
}

// leastWidth is what a column that must stay can be shortened to.
const leastWidth = 12

// fit leaves columns out, with width 0, and narrows the widest until all fit.
func fit(columns []column, widths []int, width int) {
	for {
		sum, worst, widest := -2, -1, -1
		for i, w := range widths {
			if w == 0 {
				continue
			}
			sum += w + 2
			if columns[i].drop > 0 && (worst < 0 || columns[i].drop > columns[worst].drop) {
				worst = i
			}
			if w > leastWidth && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		switch {
		case sum <= width:
			return
		case widest >= 0 && widths[widest] > 2*leastWidth: // a long name is no reason to leave a column out
			widths[widest] = max(2*leastWidth, widths[widest]-(sum-width))
		case worst >= 0:
			widths[worst] = 0
		case widest >= 0:
			widths[widest] = max(leastWidth, widths[widest]-(sum-width))
		default:
			return
		}
	}
}

func (p *printer) row(columns []column, widths []int, row tableRow) {
	var cells []string
	for i, cell := range row.cells {
		if widths[i] == 0 {
			continue
		}
		cell = shorten(printable(cell), widths[i])
		pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
		if columns[i].right {
			cell = pad + cell
		} else {
			cell += pad
		}
		cells = append(cells, cell)
	}
	level := row.level
	if level == LevelOK {
		level = "" // colour is for what needs a look
	}
	p.line(p.colored(level, strings.TrimRight(strings.Join(cells, "  "), " ")))
}

// printable takes out what could steer a terminal: names come from outside.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}

// shorten cuts the middle out of a text.
func shorten(text string, width int) string {
	runes := []rune(text)
	if len(runes) <= width {
		return text
	}
	head := width / 2
	return string(runes[:head]) + "…" + string(runes[len(runes)-(width-head-1):])
}
