package backup

import "context"

// recognizer finds the checksums of tables in the manifests of earlier backups, the newest first. It
// reads manifests as they are needed.
type recognizer struct {
	*Repository
	database string
	listed   bool
	ids      []string // of backups that were not read yet
	own, all int      // manifests that were read, of the database and in total
	sums     map[string]string
}

// At most so many manifests are read. A table is in every backup from the first to the last that needs
// it, so the newest one of the database has nearly all.
const (
	maxOwnManifests = 8
	maxAllManifests = 64
)

// sumOf returns the checksum of the table with that identity, or "".
func (k *recognizer) sumOf(ctx context.Context, identity string) (string, error) {
	if !k.listed {
		ids, err := k.Repository.ids(ctx, backupPrefix)
		if err != nil {
			return "", err
		}
		k.listed, k.ids, k.sums = true, ids, map[string]string{}
	}
	for k.sums[identity] == "" && len(k.ids) > 0 && k.own < maxOwnManifests && k.all < maxAllManifests {
		id := k.ids[len(k.ids)-1]
		k.ids = k.ids[:len(k.ids)-1]
		k.all++
		m, err := k.manifest(ctx, id)
		if err != nil {
			if ctx.Err() != nil {
				return "", ctx.Err()
			}
			continue // damaged or just removed: its tables are read if no other backup has them
		}
		if m.Database == k.database {
			k.own++
		}
		for _, f := range m.files {
			if f.identity != "" && k.sums[f.identity] == "" {
				k.sums[f.identity] = f.sum
			}
		}
	}
	return k.sums[identity], nil
}
