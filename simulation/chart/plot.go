package chart

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// Colour is one of the colours that can be told apart, in order of use; Grey
// is for references, drawn dashed.
type Colour int

// The colours.
const (
	Grey Colour = iota
	Blue
	Orange
	Green
	Yellow
	Pink
	Violet
	Red
)

// Point is one value; Note is what a pointer resting on it shows.
type Point struct {
	X, Y float64
	Note string
}

// Line is one series. Bold ones are drawn last and thicker; Dashed ones and
// grey ones are dashed.
type Line struct {
	Name   string
	Colour Colour
	Bold   bool
	Dashed bool
	Points []Point
}

// Plot is a line plot.
type Plot struct {
	Title          string // for readers that do not see
	XName, YName   string
	LogX, LogY     bool
	Zero           bool                 // a linear y axis begins at 0
	XText, YText   func(float64) string // tick labels; nil: %g
	XTicks, YTicks []float64            // nil: chosen
	Lines          []Line
}

// Size of every plot, in CSS pixels before it is scaled to its place.
const (
	width, height        = 440.0, 320.0
	left, right          = 66.0, 14.0
	bottom               = 42.0
	legendTop, legendRow = 18.0, 18.0
	legendLeft           = 24.0
	letter               = 6.7 // width of one, 12 px text
)

// style of a plot; the page's own variables are not needed.
const style = `<style>
.bp{font:12px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;--c0:#8a8a86;--c1:#2a6fdb;--c2:#e2622b;--c3:#12926a;--c4:#c98a00;--c5:#d4568f;--c6:#6a55c9;--c7:#c93636;--ink:#33332f;--dim:#77776f;--grid:#e7e6e0;--paper:#fff}
.bp text{fill:var(--dim)}.bp .n{fill:var(--ink)}.bp .g{stroke:var(--grid);stroke-width:1}.bp .a{stroke:var(--dim);stroke-width:1}
.bp path{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}.bp .b{stroke-width:3}
.bp circle{stroke:var(--paper);stroke-width:1.2}
@media(prefers-color-scheme:dark){.bp{--c0:#9a9a94;--c1:#5b9bff;--c2:#f08455;--c3:#35b98c;--c4:#e0a829;--c5:#e77fae;--c6:#9d8df0;--c7:#ee6a6a;--ink:#e8e7e1;--dim:#a3a29a;--grid:#34342f;--paper:#1d1d1b}}
</style>`

// SVG is the plot as one element.
func (p *Plot) SVG() string {
	var b strings.Builder
	legend, rows := p.legend()
	top := legendTop + float64(rows)*legendRow
	x, y := p.scales(top)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" class="bp" viewBox="0 0 %g %g" role="img" aria-label="%s">`+"\n%s\n%s",
		width, height, escape(p.Title), style, legend)
	p.axes(&b, x, y, top)
	for _, bold := range []bool{false, true} {
		for i := range p.Lines {
			if p.Lines[i].Bold == bold {
				p.Lines[i].draw(&b, x, y)
			}
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// scales fit all lines.
func (p *Plot) scales(top float64) (x, y scale) {
	var xs, ys []float64
	for _, l := range p.Lines {
		for _, pt := range l.Points {
			xs, ys = append(xs, pt.X), append(ys, pt.Y)
		}
	}
	x = newScale(append(xs, p.XTicks...), p.LogX, false, left+8, width-right-8)
	y = newScale(append(ys, p.YTicks...), p.LogY, p.Zero, height-bottom, top)
	y.room(0.03)
	return x, y
}

// legend is the names with their colours, in rows.
func (p *Plot) legend() (text string, rows int) {
	var b strings.Builder
	at := legendLeft
	rows = 1
	for i := range p.Lines {
		l := &p.Lines[i]
		need := 34 + letter*float64(len([]rune(l.Name)))
		if at+need > width && at > legendLeft {
			at, rows = legendLeft, rows+1
		}
		y := legendTop + float64(rows-1)*legendRow - 6
		fmt.Fprintf(&b, `<path d="M%.1f %.1fh14" %s/><text class="n" x="%.1f" y="%.1f">%s</text>`+"\n",
			at, y, l.look(), at+19, y+4, escape(l.Name))
		at += need
	}
	return b.String(), rows
}

func (p *Plot) axes(b *strings.Builder, x, y scale, top float64) {
	ticks := p.YTicks
	if ticks == nil {
		ticks = y.ticks(6)
	}
	for _, v := range ticks {
		at := y.at(v)
		fmt.Fprintf(b, `<line class="g" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/><text x="%g" y="%.1f" text-anchor="end">%s</text>`+"\n",
			left, width-right, at, at, left-6, at+4, label(p.YText, v))
	}
	fmt.Fprintf(b, `<line class="a" x1="%g" x2="%g" y1="%g" y2="%g"/>`+"\n", left, width-right, height-bottom, height-bottom)
	if ticks = p.XTicks; ticks == nil {
		ticks = x.ticks(7)
	}
	for _, v := range ticks {
		fmt.Fprintf(b, `<text x="%.1f" y="%g" text-anchor="middle">%s</text>`+"\n", x.at(v), height-bottom+16, label(p.XText, v))
	}
	fmt.Fprintf(b, `<text x="%g" y="%g" text-anchor="middle">%s</text>`+"\n", (left+width-right)/2, height-8, escape(p.XName))
	fmt.Fprintf(b, `<text transform="translate(12 %.1f) rotate(-90)" text-anchor="middle">%s</text>`+"\n", (top+height-bottom)/2, escape(p.YName))
}

func label(text func(float64) string, v float64) string {
	if text == nil {
		return fmt.Sprintf("%.4g", v)
	}
	return escape(text(v))
}

// look is the stroke of a line.
func (l *Line) look() string {
	dash, class := "", ""
	if l.Colour == Grey || l.Dashed {
		dash = ` stroke-dasharray="5 4"`
	}
	if l.Bold {
		class = ` class="b"`
	}
	return fmt.Sprintf(`style="stroke:var(--c%d)"%s%s`, l.Colour, dash, class)
}

// draw writes the path and its points; a value with no place breaks the path.
func (l *Line) draw(b *strings.Builder, x, y scale) {
	var path, dots strings.Builder
	verb := "M"
	for _, pt := range l.Points {
		if !x.takes(pt.X) || !y.takes(pt.Y) {
			verb = "M"
			continue
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", verb, x.at(pt.X), y.at(pt.Y))
		verb = "L"
		note := pt.Note
		if note == "" {
			note = fmt.Sprintf("%s: %.4g at %.4g", l.Name, pt.Y, pt.X)
		}
		fmt.Fprintf(&dots, `<circle cx="%.1f" cy="%.1f" r="%g" style="fill:var(--c%d)"><title>%s</title></circle>`+"\n",
			x.at(pt.X), y.at(pt.Y), l.radius(), l.Colour, escape(note))
	}
	if path.Len() > 0 {
		fmt.Fprintf(b, `<path d="%s" %s/>`+"\n%s", path.String(), l.look(), dots.String())
	}
}

func (l *Line) radius() float64 {
	if l.Bold {
		return 4
	}
	return 3
}

// escape makes any text fit for XML.
func escape(text string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(text)); err != nil {
		panic("invariant: a string builder takes everything: " + err.Error())
	}
	return b.String()
}
