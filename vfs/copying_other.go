//go:build !linux

package vfs

func (o *osFile) writeUncached(p []byte) (int, error) { return o.f.Write(p) }
