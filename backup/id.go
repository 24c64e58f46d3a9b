package backup

import (
	"crypto/rand"
	"encoding/hex"
	"regexp"
	"time"
)

// The names of objects; see the package comment. They never change.
const (
	formatName      = "FORMAT"
	objectPrefix    = "objects/"
	backupPrefix    = "backups/"
	runningPrefix   = "running/"
	condemnedPrefix = "condemned/"
	waitsPrefix     = "waits/"
	identityPrefix  = "identity/"
	streamPrefix    = "streams/"
	segmentPrefix   = "segments/"
	tempPrefix      = "tmp/"
)

// idLayout is the time of an ID, in UTC. IDs sort by time.
const idLayout = "20060102T150405.000000000Z"

var idPattern = regexp.MustCompile(`[0-9]{8}T[0-9]{6}\.[0-9]{9}Z-[0-9a-f]{16}`)

func newID(t time.Time) string { return t.UTC().Format(idLayout) + "-" + randomHex() }

// randomHex returns 64 random bits.
func randomHex() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// validID reports whether s is an ID.
func validID(s string) bool {
	_, ok := timeOf(s)
	return ok
}

// timeOf returns the time of an ID.
func timeOf(id string) (time.Time, bool) {
	if idPattern.FindString(id) != id || id == "" {
		return time.Time{}, false
	}
	t, err := time.Parse(idLayout, id[:len(idLayout)])
	return t, err == nil
}

// maxSkew is how much later than now a backup's time may be, since clocks of machines differ. One that is
// later was made while a clock was wrong.
const maxSkew = 24 * time.Hour

// isFuture reports whether a backup's time is too late to be true.
func (r *Repository) isFuture(t time.Time) bool { return t.Sub(r.now()) > maxSkew }

// objectName returns the name of an object with that checksum, stored by the backup of that ID.
func objectName(sum, id string) string { return objectPrefix + sum[:2] + "/" + sum + "-" + id }

var objectPattern = regexp.MustCompile(`^objects/([0-9a-f]{2})/([0-9a-f]{64})-(.*)$`)

// parseObject returns the parts of the name of an object.
func parseObject(name string) (sum, id string, ok bool) {
	m := objectPattern.FindStringSubmatch(name)
	if m == nil || m[1] != m[2][:2] || !validID(m[3]) {
		return "", "", false
	}
	return m[2], m[3], true
}
