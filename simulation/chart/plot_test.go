package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func drawn(t *rapid.T) Plot {
	number := rapid.OneOf(rapid.Float64(), rapid.Float64Range(-10, 1000), rapid.Just(math.NaN()), rapid.Just(math.Inf(1)), rapid.Just(0.0))
	line := rapid.Custom(func(t *rapid.T) Line {
		return Line{
			Name: rapid.String().Draw(t, "name"), Colour: Colour(rapid.IntRange(0, int(Red)).Draw(t, "colour")), Bold: rapid.Bool().Draw(t, "bold"),
			Points: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Point {
				return Point{number.Draw(t, "x"), number.Draw(t, "y"), rapid.String().Draw(t, "note")}
			}), 0, 6).Draw(t, "points"),
		}
	})
	return Plot{
		Title: rapid.String().Draw(t, "title"), XName: rapid.String().Draw(t, "x"), YName: "<y & z>",
		LogX: rapid.Bool().Draw(t, "logx"), LogY: rapid.Bool().Draw(t, "logy"), Zero: rapid.Bool().Draw(t, "zero"),
		Lines: rapid.SliceOfN(line, 0, 5).Draw(t, "lines"),
	}
}

var circle = regexp.MustCompile(`<circle cx="([^"]*)" cy="([^"]*)"`)

func TestC1C2C3AnyPlotIsWellFormedAndInsideItsFrame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawn(t)
		text := p.SVG()
		if text != p.SVG() {
			t.Fatal("C3: the same plot drew otherwise")
		}
		dec := xml.NewDecoder(strings.NewReader(text))
		for {
			if _, err := dec.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("C1: %v in\n%s", err, text)
			}
		}
		for _, m := range circle.FindAllStringSubmatch(text, -1) {
			x, err1 := strconv.ParseFloat(m[1], 64)
			y, err2 := strconv.ParseFloat(m[2], 64)
			if err1 != nil || err2 != nil || !(x >= left && x <= width) || !(y >= 0 && y <= height-bottom+.1) {
				t.Fatalf("C2: a point at %s, %s", m[1], m[2])
			}
		}
	})
}

func TestTicksAreRoundAndFew(t *testing.T) {
	for _, c := range []struct {
		s    scale
		want []float64
	}{
		{newScale([]float64{0, 10}, false, true, 0, 1), []float64{0, 2, 4, 6, 8, 10}},
		{newScale([]float64{0.61, 0.93}, false, false, 0, 1), []float64{0.7, 0.8, 0.9}},
		{newScale([]float64{1, 100}, true, false, 0, 1), []float64{1, 3, 10, 30, 100}},
		{newScale([]float64{1, 10000}, true, false, 0, 1), []float64{1, 10, 100, 1000, 10000}},
		{newScale([]float64{80, 180}, true, false, 0, 1), []float64{80, 100, 120, 140, 160, 180}},
		{newScale([]float64{3, 60}, true, false, 0, 1), []float64{5, 10, 20, 50}},
	} {
		got := c.s.ticks(6)
		same := len(got) == len(c.want)
		for i := range got {
			same = same && math.Abs(got[i]-c.want[i]) < 1e-9
		}
		if !same {
			t.Errorf("ticks of %g to %g: %v, want %v", c.s.min, c.s.max, got, c.want)
		}
	}
}
