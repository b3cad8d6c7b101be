package console

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestForestJoinsContinuations(t *testing.T) {
	both := []string{"r0", "r1"}
	got, byHits := Forest([]Prefix{
		{Key: "b", Parent: "a", Tokens: 512, Blocks: 16, Holders: both},
		{Key: "a", Parent: "0", Tokens: 256, Blocks: 16, Holders: both},
		{Key: "c", Parent: "b", Tokens: 768, Blocks: 16, Holders: both[:1]},
		{Key: "d", Parent: "b", Tokens: 640, Blocks: 8, Holders: both[1:]},
	}, 16)
	if len(got) != 3 || byHits {
		t.Fatalf("%d branches, by hits %v: %+v", len(got), byHits, got)
	}
	if b := got[0]; b.Key != "b" || b.From != 0 || b.To != 512 || b.Level != 1 || b.Height != 1 || b.Share != 1 {
		t.Errorf("root: %+v", b)
	}
	if b := got[1]; b.Key != "c" || b.From != 512 || b.To != 768 || b.Level != 2 || math.Abs(b.Height-16./24) > 1e-9 {
		t.Errorf("the larger child: %+v", b)
	}
	if b := got[2]; b.Key != "d" || math.Abs(b.Y-16./24) > 1e-9 {
		t.Errorf("the smaller child: %+v", b)
	}
}

// Nothing is left out: a fork inside of a piece cuts it, and pieces between two
// listed ones leave a gap.
func TestForestCutsAtForksAndLeavesGaps(t *testing.T) {
	both := []string{"r0", "r1"}
	got, _ := Forest([]Prefix{
		{Key: "a16", Tokens: 256, Blocks: 16, Holders: both},
		{Key: "x", Parent: "a4", Under: "a16", Tokens: 192, Blocks: 8, Holders: both[:1]},
		{Key: "y", Parent: "a12", Under: "a16", Tokens: 320, Blocks: 8, Holders: both[:1]},
		{Key: "far", Parent: "unlisted", Under: "a16", Tokens: 1024, Blocks: 16, Holders: both[:1]},
		{Key: "lost", Parent: "nowhere", Tokens: 512, Blocks: 16, Holders: both},
	}, 16)
	type piece struct {
		key                  string
		level, from, to, gap int
	}
	var is []piece
	for _, b := range got {
		is = append(is, piece{b.Key, b.Level, b.From, b.To, b.Gap})
	}
	want := []piece{
		{"a4", 1, 0, 64, 0},
		{"a12", 2, 64, 192, 0},
		{"a16", 3, 192, 256, 0},
		{"far", 4, 768, 1024, 512},
		{"y", 3, 192, 320, 0},
		{"x", 2, 64, 192, 0},
		{"lost", 1, 256, 512, 256},
	}
	if !slices.Equal(is, want) {
		t.Errorf("got  %v\nwant %v", is, want)
	}
}

// By hits the height is the share of prompts that came so far; what stays free
// beside children are those that went no further.
func TestForestByHits(t *testing.T) {
	one, hit := []string{"r0"}, func(v float64) *float64 { return &v }
	got, byHits := Forest([]Prefix{
		{Key: "a", Tokens: 256, Blocks: 16, Holders: one, HitShare: hit(.6)},
		{Key: "b", Under: "a", Parent: "a", Tokens: 512, Blocks: 16, Holders: []string{"r1"}, HitShare: hit(.15)},
		{Key: "c", Tokens: 16, Blocks: 1, Holders: one, HitShare: hit(.2)},
		{Key: "cold", Tokens: 16_000, Blocks: 1000, Holders: one, HitShare: hit(0)},
	}, 16)
	if !byHits || len(got) != 4 {
		t.Fatalf("by hits %v: %+v", byHits, got)
	}
	if a, b, c := got[0], got[1], got[2]; a.Key != "a" || a.Share != .6 || b.Key != "b" || math.Abs(b.Height-a.Height/4) > 1e-9 || math.Abs(a.Height-3*c.Height) > 1e-9 {
		t.Errorf("%+v\n%+v\n%+v", a, b, c)
	}
	if c := got[3]; c.Key != "cold" || c.Height <= 0 || c.Height > smallBranch+1e-9 {
		t.Errorf("what nobody asked for: %+v", c)
	}
}

func TestForestBundlesTheSmall(t *testing.T) {
	list := []Prefix{{Key: "big", Tokens: 16000, Blocks: 1000, Holders: []string{"r"}}}
	for i := range 50 {
		list = append(list, Prefix{Key: fmt.Sprint(i), Tokens: 16, Blocks: 1, Holders: []string{"r"}})
	}
	got, _ := Forest(list, 16)
	if last := got[len(got)-1]; len(got) != largestFew+1 || last.Key != "" || last.Bundled != 50-(largestFew-1) {
		t.Fatalf("%+v", got)
	}
}

// Whatever the list holds, cycles and nonsense included, all branches lie
// within the drawing and siblings do not overlap.
func TestForestStaysWithinTheDrawing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := make([]Prefix, rapid.IntRange(0, 60).Draw(t, "n"))
		for i := range list {
			name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g"})
			list[i] = Prefix{
				Key: name.Draw(t, "key"), Parent: name.Draw(t, "parent"), Under: rapid.SampledFrom([]string{"", "a", "b", "x"}).Draw(t, "under"),
				Tokens: rapid.IntRange(-5, 400).Draw(t, "tokens"), Blocks: rapid.IntRange(-1, 30).Draw(t, "blocks"),
				Holders: slices.Repeat([]string{"r"}, rapid.IntRange(0, 3).Draw(t, "holders")),
			}
			if rapid.Bool().Draw(t, "hit") {
				share := rapid.Float64Range(-1, 2).Draw(t, "share")
				list[i].HitShare = &share
			}
		}
		got, _ := Forest(list, 16)
		ends := map[int]float64{}
		for _, b := range got {
			const e = 1e-9
			if b.X < 0 || b.X+b.Width > 1+e || b.Y < 0 || b.Y+b.Height > 1+e || b.From < 0 || b.From > b.To || b.Level < 1 {
				t.Fatalf("outside: %+v", b)
			}
			if b.Y < ends[b.Level]-e {
				t.Fatalf("overlaps what stands before it on its level: %+v", b)
			}
			ends[b.Level] = b.Y + b.Height
		}
	})
}
