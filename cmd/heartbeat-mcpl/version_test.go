package main

import "testing"

// TestOneVersionHoweverItWasBuilt: by `go run`, from a checkout, from a tag, or as a release.
func TestOneVersionHoweverItWasBuilt(t *testing.T) {
	for module, want := range map[string]string{
		"":                                   release, // without modules
		"(devel)":                            release, // go run
		"v0.0.0-20261207110305-7ae85af12345": release, // a checkout without a tag
		"v0.0.0-20261207110305-7ae85af12345+dirty":         release,
		"v0.1.1-0.20261207110305-7ae85af12345":             release, // behind a tag
		"v0.2.0-rc.1.0.20261207110305-7ae85af12345":        release,
		"v0.2.0-pre.0.20261207110305-7ae85af12345+dirty.1": release,
		"v1.2.3":          "1.2.3", // go install ...@v1.2.3, or a checkout of the tag
		"v1.2.3+dirty":    "1.2.3",
		"v2.0.0-rc.1":     "2.0.0-rc.1",
		"v2.0.0-20261207": "2.0.0-20261207",
	} {
		if got := versionOf(module); got != want {
			t.Errorf("of the module version %q: %q, want %q", module, got, want)
		}
	}
}
