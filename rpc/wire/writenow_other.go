//go:build !linux

package wire

import "io"

func nowWriter(io.Writer) func(p []byte) (n int) { return takesNothing }
