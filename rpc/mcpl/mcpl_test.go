package mcpl

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestPolicyBlocksUnlessEverythingIsGranted(t *testing.T) {
	for _, c := range []struct{ name, params, blocked string }{
		{"the seed's example", `{"effectiveCapabilities":["tools","pushEvents"],"enabled":["heartbeat"]}`, ""},
		{"enabled absent allows every set", `{"effectiveCapabilities":["pushEvents"]}`, ""},
		{"a star matches one segment", `{"effectiveCapabilities":["*"]}`, ""},
		{"but only one", `{"effectiveCapabilities":["*.*","pushEvents.*"]}`, BlockedCapability},
		{"a bare parent grants no leaf, nor a leaf its parent", `{"effectiveCapabilities":["pushEvents.leaf"]}`, BlockedCapability},
		{"capitals differ", `{"effectiveCapabilities":["PushEvents"]}`, BlockedCapability},
		{"absent grants nothing", `{}`, BlockedCapability},
		{"denied is only a diagnostic", `{"effectiveCapabilities":["pushEvents"],"deniedCapabilities":["inferenceRequest"]}`, ""},
		{"an empty allowlist allows none", `{"effectiveCapabilities":["pushEvents"],"enabled":[]}`, BlockedNotEnabled},
		{"disabled always subtracts", `{"effectiveCapabilities":["pushEvents"],"enabled":["heartbeat"],"disabled":["heartbeat"]}`, BlockedDisabled},
		{"names may end in a star", `{"effectiveCapabilities":["pushEvents"],"disabled":["heartbeat.*"]}`, ""},
		{"a lone star is every name", `{"effectiveCapabilities":["pushEvents"],"disabled":["*"]}`, BlockedDisabled},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p Policy
			p.Initialized(Session{MCPL: true})
			r, err := p.Update(json.RawMessage(c.params))
			if err != nil || p.Blocked() != c.blocked {
				t.Fatalf("blocked: %q, %v, want %q", p.Blocked(), err, c.blocked)
			}
			if full := r.Mode == "full"; full != (c.blocked == "") || full != (len(r.Unavailable) == 0) || full != (len(r.Notes) == 0) {
				t.Errorf("receipt: %+v", r)
			}
		})
	}
}

func TestMalformedUpdateClearsTheGrant(t *testing.T) {
	for _, params := range []string{
		``, `null`, `[]`, `7`, `{"effectiveCapabilities":null}`, `{"effectiveCapabilities":{}}`, `{"effectiveCapabilities":[null]}`,
		`{"enabled":"heartbeat"}`, `{"disabled":[1]}`, `{"deniedCapabilities":[{}]}`,
		`{"effectiveCapabilities":["pushEvents"],"deniedCapabilities":["pushEvents"]}`,
	} {
		var p Policy
		p.Initialized(Session{MCPL: true})
		if _, err := p.Update(json.RawMessage(`{"effectiveCapabilities":["pushEvents"]}`)); err != nil || p.Blocked() != "" {
			t.Fatal(err)
		}
		if _, err := p.Update(json.RawMessage(params)); !errors.Is(err, ErrMalformed) || p.Blocked() != BlockedNoPolicy {
			t.Errorf("%s: %v, blocked %q", params, err, p.Blocked())
		}
	}
}

func TestNotificationOnlyNarrows(t *testing.T) {
	var p Policy
	if p.Blocked() != BlockedNoPolicy {
		t.Errorf("before initialize: %q", p.Blocked())
	}
	p.Initialized(Session{MCPL: true})
	p.Notice(json.RawMessage(`{"effectiveCapabilities":["pushEvents"]}`))
	if p.Blocked() != BlockedNotificationOnly || p.Pushable() {
		t.Errorf("a notification alone: %q", p.Blocked())
	}
	if _, err := p.Update(json.RawMessage(`{"effectiveCapabilities":["pushEvents"]}`)); err != nil || p.Blocked() != "" || !p.Pushable() {
		t.Errorf("a request after it: %q, %v", p.Blocked(), err)
	}
	p.Notice(json.RawMessage(`{"disabled":["heartbeat"],"enabled":["heartbeat"]}`))
	p.Notice(json.RawMessage(`{"disabled":"heartbeat"}`))
	p.Notice(json.RawMessage(`7`))
	if p.Blocked() != BlockedDisabled {
		t.Errorf("narrowed: %q", p.Blocked())
	}
	if _, err := p.Update(json.RawMessage(`{"effectiveCapabilities":["pushEvents"]}`)); err != nil || p.Blocked() != "" {
		t.Errorf("the next request: %q, %v", p.Blocked(), err)
	}
	if _, err := p.Update(json.RawMessage(`{"effectiveCapabilities":7}`)); err == nil || p.Blocked() != BlockedNoPolicy {
		t.Errorf("a malformed request after a notification and valid ones: %q, %v", p.Blocked(), err)
	}
	p.Initialized(Session{})
	if p.Blocked() != BlockedMCPOnly || p.Pushable() {
		t.Errorf("an MCP-only host: %q", p.Blocked())
	}
}

// TestRevisionIsOfTheCanonicalManifest computes it another way: this manifest's canonical form is its members sorted.
func TestRevisionIsOfTheCanonicalManifest(t *testing.T) {
	var m map[string]any
	if err := json.Unmarshal(Manifest(false), &m); err != nil {
		t.Fatal(err)
	}
	revision := m["revision"]
	delete(m, "revision")
	canonical, err := json.Marshal(m) // sorts members; nothing in it needs more of RFC 8785
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(canonical)
	if want := "sha256:" + base64.RawURLEncoding.EncodeToString(sum[:]); revision != want {
		t.Errorf("revision %v, want %s", revision, want)
	}
	if strings.Contains(string(Manifest(false)), "=") {
		t.Error("the revision is padded")
	}
}
