// Package mcpl owns what MCPL 0.5 adds to MCP at this server: the object that it advertises ([Manifest]), and the policy
// that a host sets with featureSets/update ([Policy]). It is pure and knows nothing of streams.
package mcpl

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The feature sets of this server and the capabilities that they need. The second one is for hosts that tell when turns
// begin and end.
const (
	FeatureSet          = "heartbeat"
	Capability          = "pushEvents"
	IdleFeatureSet      = "heartbeat.idle"
	LifecycleCapability = "inferenceLifecycle"
)

// The reasons of SPEC 8.6 why no wake can be sent.
const (
	BlockedMCPOnly          = "host is MCP-only"
	BlockedNoPolicy         = "no valid featureSets/update request in force (none yet, or the last was malformed)"
	BlockedNotificationOnly = "host sent featureSets/update only as a Notification, and no valid featureSets/update request is in force"
	BlockedCapability       = "capability not granted: " + Capability
	BlockedDisabled         = "feature set disabled by host: " + FeatureSet
	BlockedNotEnabled       = "feature set not enabled by host: " + FeatureSet
)

// ErrMalformed says that a featureSets/update request cannot be taken (SPEC 8.3): error -32602, and the grant is cleared.
var ErrMalformed = errors.New("malformed featureSets/update")

// Policy is what one connection's host allows. The zero value is that of a connection before initialize.
type Policy struct {
	spoken    bool // the host negotiated MCPL
	mcpOnly   bool // the host initialized without MCPL
	lifecycle bool // the host offers to tell when turns begin and end
	requested bool // a featureSets/update came as a request, valid or not
	noticed   bool // one came as a notification
	grant     *grant
	narrowed  []string // disabled by notifications since the last request
}

// grant is a valid featureSets/update request.
type grant struct {
	Effective []string
	Enabled   []string // nil: every feature set
	Disabled  []string
}

// Session is what a host says of itself with initialize.
type Session struct {
	MCPL      bool // it speaks MCPL
	Lifecycle bool // it tells when turns begin and end
}

// Initialized begins a session: nothing is granted until a request says so.
func (p *Policy) Initialized(s Session) {
	*p = Policy{spoken: s.MCPL, mcpOnly: !s.MCPL, lifecycle: s.MCPL && s.Lifecycle}
}

// Idle says whether wakes must keep to the time between turns (SPEC 11.3).
func (p *Policy) Idle() bool {
	g := p.grant
	return p.lifecycle && g != nil && granted(g.Effective, LifecycleCapability) &&
		!names(g.Disabled, IdleFeatureSet) && !names(p.narrowed, IdleFeatureSet) && (g.Enabled == nil || names(g.Enabled, IdleFeatureSet))
}

// Blocked is why no wake can be sent, empty while one can.
func (p *Policy) Blocked() string {
	switch {
	case p.mcpOnly:
		return BlockedMCPOnly
	case p.noticed && !p.requested:
		return BlockedNotificationOnly
	case !p.spoken || p.grant == nil:
		return BlockedNoPolicy
	case !granted(p.grant.Effective, Capability):
		return BlockedCapability
	case names(p.grant.Disabled, FeatureSet) || names(p.narrowed, FeatureSet):
		return BlockedDisabled
	case p.grant.Enabled != nil && !names(p.grant.Enabled, FeatureSet):
		return BlockedNotEnabled
	}
	return ""
}

// MCPOnly says whether the host has said that it does not speak MCPL.
func (p *Policy) MCPOnly() bool { return p.mcpOnly }

// Pushable says whether this connection can come to carry a wake at all: its host speaks MCPL and knows that policy is a
// request (SPEC 6.7).
func (p *Policy) Pushable() bool { return !p.mcpOnly && (p.requested || !p.noticed) }

// Remedy is what has to happen so that wakes can be sent, a sentence; empty while they can.
func (p *Policy) Remedy() string {
	switch p.Blocked() {
	case "":
		return ""
	case BlockedMCPOnly:
		return "Wakes need a host that speaks MCPL: one that sends capabilities.experimental.mcpl with initialize."
	case BlockedCapability:
		return "The host must grant " + Capability + " in effectiveCapabilities of featureSets/update."
	case BlockedDisabled, BlockedNotEnabled:
		return "The host must enable the feature set " + FeatureSet + " in featureSets/update (in a Connectome recipe: enabledFeatureSets)."
	}
	return "The host must send featureSets/update as a Request, with an id, after initialize (MCPL 0.5)."
}

// InForce says whether a valid request was seen.
func (p *Policy) InForce() bool { return p.grant != nil }

// Receipt is the answer to a featureSets/update request (SPEC 8.4).
type Receipt struct {
	Accepted    bool          `json:"accepted"`
	Mode        string        `json:"mode"`
	Unavailable []Unavailable `json:"unavailableFeatures"`
	Notes       []string      `json:"notes"`
}

// Unavailable is a feature set that will not work, and why.
type Unavailable struct {
	FeatureSet string   `json:"featureSet"`
	Missing    []string `json:"missingCapabilities"`
	Effect     string   `json:"effect"`
}

// Update takes a featureSets/update request. An error wraps [ErrMalformed]; the grant is cleared then.
func (p *Policy) Update(params json.RawMessage) (Receipt, error) {
	p.requested, p.narrowed = true, nil
	g, err := parseGrant(params)
	if err != nil {
		p.grant = nil
		return Receipt{}, err
	}
	p.grant = &g
	return p.receipt(), nil
}

func (p *Policy) receipt() Receipt {
	r := Receipt{Accepted: true, Mode: "full", Unavailable: []Unavailable{}, Notes: []string{}}
	if blocked := p.Blocked(); blocked != "" {
		missing := []string{}
		if !granted(p.grant.Effective, Capability) {
			missing = append(missing, Capability)
		}
		r.Mode = "degraded"
		r.Unavailable = append(r.Unavailable, Unavailable{FeatureSet: FeatureSet, Missing: missing, Effect: "disabled"})
		r.Notes = append(r.Notes, "Heartbeats and reminders will not be delivered: "+blocked+". The tools answer all the same.")
	}
	if p.lifecycle && !p.Idle() {
		missing := []string{}
		if !granted(p.grant.Effective, LifecycleCapability) {
			missing = append(missing, LifecycleCapability)
		}
		r.Mode = "degraded"
		r.Unavailable = append(r.Unavailable, Unavailable{FeatureSet: IdleFeatureSet, Missing: missing, Effect: "disabled"})
		r.Notes = append(r.Notes, "Wakes are sent whether a turn runs or not.")
	}
	return r
}

// Notice takes a featureSets/update notification: it can only take away, by its disabled list (SPEC 8.5).
func (p *Policy) Notice(params json.RawMessage) {
	p.noticed = true
	var fields struct {
		Disabled json.RawMessage `json:"disabled"`
	}
	if json.Unmarshal(params, &fields) != nil {
		return
	}
	if disabled, err := stringsIn("disabled", fields.Disabled); err == nil {
		p.narrowed = append(p.narrowed, disabled...)
	}
}

func parseGrant(params json.RawMessage) (grant, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(params, &members); err != nil || members == nil {
		return grant{}, fmt.Errorf("%w: params must be an object", ErrMalformed)
	}
	var g grant
	var denied []string
	var problems []string
	for _, f := range []struct {
		name string
		into *[]string
	}{
		{"effectiveCapabilities", &g.Effective}, {"deniedCapabilities", &denied}, {"enabled", &g.Enabled}, {"disabled", &g.Disabled},
	} {
		list, err := stringsIn(f.name, members[f.name])
		if err != nil {
			problems = append(problems, err.Error())
		}
		*f.into = list
	}
	for _, path := range g.Effective {
		if slices.Contains(denied, path) {
			problems = append(problems, fmt.Sprintf("%q is both effective and denied", path))
		}
	}
	if len(problems) > 0 {
		return grant{}, fmt.Errorf("%w: %s", ErrMalformed, strings.Join(problems, "; "))
	}
	return g, nil
}

// stringsIn reads an array of strings; absent is nil, an empty array is not.
func stringsIn(name string, raw json.RawMessage) ([]string, error) {
	if raw == nil {
		return nil, nil
	}
	var members []any
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return nil, fmt.Errorf("%s must be an array of strings", name)
	}
	list := make([]string, 0, len(members))
	for _, m := range members {
		s, ok := m.(string)
		if !ok {
			return nil, fmt.Errorf("%s must hold strings only", name)
		}
		list = append(list, s)
	}
	return list, nil
}

// granted says whether an allowlist of capability paths grants path: segment by segment, * standing for exactly one, so
// that a bare parent grants no leaf (SPEC 8.3).
func granted(allow []string, path string) bool {
	want := strings.Split(path, ".")
	return slices.ContainsFunc(allow, func(pattern string) bool {
		return slices.EqualFunc(strings.Split(pattern, "."), want, func(p, w string) bool { return p == "*" || p == w })
	})
}

// names says whether a list of feature-set names, which may end in .*, holds name. A lone * is every name.
func names(list []string, name string) bool {
	return slices.ContainsFunc(list, func(pattern string) bool {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok && (prefix == "" || strings.HasSuffix(prefix, ".")) {
			return strings.HasPrefix(name, prefix)
		}
		return pattern == name
	})
}
