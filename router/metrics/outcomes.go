package metrics

import (
	"github.com/banyan-llm/banyan/router/policy"
	"github.com/banyan-llm/banyan/router/token"
)

// Outcomes of fetches; a closed list, used as a metric label.
const (
	FetchCame     = "fetched"  // the engine found most of the tokens cached
	FetchComputed = "computed" // it computed most of them
	FetchUnknown  = "unknown"  // it does not say, or the try came to nothing
)

// SplitUnsuitable is why a request is not even considered for two replicas; the
// other reasons are policy's.
const SplitUnsuitable policy.SplitReason = "unsuitable"

// Splits is the closed list of the label why.
var Splits = []policy.SplitReason{
	policy.SplitRemote, policy.SplitOnly, policy.SplitShort, policy.SplitSooner, policy.SplitNoPair, SplitUnsuitable,
}

// reasons is the closed list of the label reason.
var reasons = []policy.Reason{
	policy.ReasonPrefix, policy.ReasonLoad, policy.ReasonSpill, policy.ReasonSession,
	policy.ReasonStale, policy.ReasonOnly, policy.ReasonBaseline,
}

// keyings are the closed lists of the labels mode and, of each, reason.
var keyings = map[token.Scheme][]token.Reason{
	token.Ids:    {token.Given},
	token.Engine: {token.Asked, token.Cached},
	token.Text: {
		token.Configured, token.NoEngine, token.Unsupported, token.Unaskable, token.Differs, token.Cooling,
		token.Timeout, token.Busy, token.Failed, token.Rejected,
	},
	token.None: {token.NoPrompt},
}
