package console

import (
	"fmt"
	"strings"
)

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func maybe(v *uint64, format func(uint64) string) string {
	if v == nil {
		return "-"
	}
	return format(*v)
}

func number(v *float64, digits int) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.*f", digits, *v)
}

func millis(v *float64) string {
	switch {
	case v == nil:
		return "-"
	case *v >= 10_000:
		return fmt.Sprintf("%.0f s", *v/1000)
	case *v >= 1000:
		return fmt.Sprintf("%.1f s", *v/1000)
	case *v >= 10:
		return fmt.Sprintf("%.0f ms", *v)
	case *v >= 1:
		return fmt.Sprintf("%.1f ms", *v)
	}
	return strings.Replace(fmt.Sprintf("%.2f ms", *v), "0.00", "0", 1)
}

// age shortens a time: 12s, 4m, 3h 20m, 5d 2h.
func age(ms int64) string {
	switch s := ms / 1000; {
	case s < 120:
		return fmt.Sprintf("%ds", s)
	case s < 7200:
		return fmt.Sprintf("%dm", s/60)
	case s < 172_800:
		return fmt.Sprintf("%dh %dm", s/3600, s/60%60)
	default:
		return fmt.Sprintf("%dd %dh", s/86_400, s/3600%24)
	}
}

// count shortens a number: 950, 12.4k, 4.8M, 2.1G.
func count(n uint64) string {
	switch {
	case n >= 1_000_000_000:
		return fmt.Sprintf("%.1fG", float64(n)/1e9)
	case n >= 1_000_000:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	case n >= 10_000:
		return fmt.Sprintf("%.1fk", float64(n)/1e3)
	}
	return fmt.Sprint(n)
}

// sizeText shortens a size: 310M.
func sizeText(n uint64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1fG", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%dM", n>>20)
	case n >= 1<<10 || n == 0:
		return fmt.Sprintf("%dK", n>>10)
	}
	return fmt.Sprintf("%dB", n)
}

func ratio(part, whole uint64) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(whole))
}
