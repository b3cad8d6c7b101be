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
	got, loose := Forest([]Prefix{
		{Key: "b", Parent: "a", Tokens: 512, Blocks: 16, Holders: both},
		{Key: "a", Parent: "0", Tokens: 256, Blocks: 16, Holders: both},
		{Key: "c", Parent: "b", Tokens: 768, Blocks: 16, Holders: both[:1]},
		{Key: "d", Parent: "b", Tokens: 640, Blocks: 8, Holders: both[1:]},
		{Key: "x", Parent: "nowhere", Tokens: 4096, Blocks: 16, Holders: both},
	}, 16)
	if len(got) != 3 || loose != 1 {
		t.Fatalf("%d branches, %d loose: %+v", len(got), loose, got)
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

func TestForestBundlesTheSmall(t *testing.T) {
	list := []Prefix{{Key: "big", Tokens: 16000, Blocks: 1000, Holders: []string{"r"}}}
	for i := range 50 {
		list = append(list, Prefix{Key: fmt.Sprint(i), Tokens: 16, Blocks: 1, Holders: []string{"r"}})
	}
	got, _ := Forest(list, 16)
	if len(got) != 2 || got[1].Key != "" || got[1].Bundled != 50 {
		t.Fatalf("%+v", got)
	}
}

func TestForestWithoutRootsDrawsWhatItHas(t *testing.T) {
	got, loose := Forest([]Prefix{{Key: "x", Parent: "y", Tokens: 512, Blocks: 16, Holders: []string{"r"}}}, 16)
	if len(got) != 1 || loose != 0 || got[0].X != .5 {
		t.Errorf("%+v, %d loose", got, loose)
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
				Key: name.Draw(t, "key"), Parent: name.Draw(t, "parent"),
				Tokens: rapid.IntRange(-5, 400).Draw(t, "tokens"), Blocks: rapid.IntRange(-1, 30).Draw(t, "blocks"),
				Holders: slices.Repeat([]string{"r"}, rapid.IntRange(0, 3).Draw(t, "holders")),
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
