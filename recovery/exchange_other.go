//go:build !linux

package recovery

import "errors"

func exchange(string, string) error { return errors.ErrUnsupported }
