package mcpl

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/gowebpki/jcs"
)

// Version is the MCPL version that this server speaks.
const Version = "0.5"

// manifest is the object at capabilities.experimental.mcpl. Hosts in use read featureSets as an array (SPEC 8.1).
type manifest struct {
	Version     string       `json:"version"`
	PushEvents  bool         `json:"pushEvents"`
	FeatureSets []featureSet `json:"featureSets"`
	Revision    string       `json:"revision,omitempty"`
}

type featureSet struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Uses        []string `json:"uses"`
	Rollback    bool     `json:"rollback"`
}

// Manifest is the experimental.mcpl object with its revision: the SHA-256 of the object without it, in the canonical
// form of RFC 8785 (SPEC 8.9). withIdle: for a host that offers inferenceLifecycle (SPEC 11.3).
func Manifest(withIdle bool) json.RawMessage {
	if withIdle {
		return manifestWithIdle()
	}
	return plainManifest()
}

var (
	plainManifest    = sync.OnceValue(func() json.RawMessage { return newManifest(false) })
	manifestWithIdle = sync.OnceValue(func() json.RawMessage { return newManifest(true) })
)

func newManifest(withIdle bool) json.RawMessage {
	m := manifest{Version: Version, PushEvents: true, FeatureSets: []featureSet{{
		Name:        FeatureSet,
		Description: "Wakes the agent: a periodic heartbeat, and reminders that the agent sets itself.",
		Uses:        []string{"tools", Capability},
	}}}
	if withIdle {
		m.FeatureSets = append(m.FeatureSets, featureSet{
			Name:        IdleFeatureSet,
			Description: "Holds wakes while a turn runs, and sends them when it has ended.",
			Uses:        []string{LifecycleCapability},
		})
	}
	revision, err := revisionOf(m)
	if err != nil {
		panic(fmt.Sprintf("the manifest is constant and must have a revision: %v", err))
	}
	m.Revision = revision
	return mustMarshal(m)
}

func revisionOf(m manifest) (string, error) {
	canonical, err := jcs.Transform(mustMarshal(m))
	if err != nil {
		return "", fmt.Errorf("canonicalize the manifest: %w", err)
	}
	sum := sha256.Sum256(canonical)
	return "sha256:" + base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

func mustMarshal(m manifest) json.RawMessage {
	text, err := json.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("the manifest is constant and must encode: %v", err))
	}
	return text
}
