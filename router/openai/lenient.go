package openai

import (
	"math"
	"strconv"
	"strings"
)

// The engines validate with pydantic in its lax mode: "5" and 5.0 are the
// integer 5, "yes" and 1 are true. A router that judges by stricter rules
// refuses what would have been answered, so these readers never refuse: what
// they do not understand is unknown, and the engine says what is wrong with it.

// laxString is the text of a JSON string, "" of anything else.
func laxString(value []byte) string {
	if value[0] != '"' {
		return ""
	}
	return unquote(value)
}

// laxScalar is a number or a string as text.
func laxScalar(value []byte) string {
	if value[0] == '"' {
		return strings.TrimSpace(unquote(value))
	}
	return string(value)
}

// laxBool reads the words and numbers that pydantic takes for true.
func laxBool(value []byte) bool {
	switch strings.ToLower(laxScalar(value)) {
	case "true", "1", "1.0", "t", "y", "yes", "on":
		return true
	}
	return false
}

// laxCount reads a count, cut to an int32; ok is false for what is none.
func laxCount(value []byte) (n int, ok bool) {
	f, err := strconv.ParseFloat(laxScalar(value), 64)
	if math.IsNaN(f) || f < 0 || err != nil && !math.IsInf(f, 1) {
		return 0, false
	}
	return int(math.Min(f, math.MaxInt32)), true
}
