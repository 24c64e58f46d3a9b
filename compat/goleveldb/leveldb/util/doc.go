// Package util has the small types that the other packages share: key ranges, releasers, a byte
// buffer, a pool of buffers, and LevelDB's hash and checksum.
package util
