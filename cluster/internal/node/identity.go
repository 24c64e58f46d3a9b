package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/sievedb/sievedb/cluster/internal/files"
	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/wire"
	"github.com/sievedb/sievedb/vfs"
)

// identity is what a node knows about itself before it can talk to others. It is in the file node.json.
type identity struct {
	Format      int       `json:"format"`
	Cluster     string    `json:"cluster"`
	ID          kv.NodeID `json:"id"`
	Incarnation uint64    `json:"incarnation"`
	// Bootstrap is set while the first node of a cluster creates its groups.
	Bootstrap bool `json:"bootstrap,omitempty"`
	// Alone is set by Create, until the map has another node for the first time.
	Alone bool `json:"alone,omitempty"`
	// OldLog is set while the directory of the log has that of an earlier incarnation.
	OldLog bool `json:"old_log,omitempty"`
	// Log is set once the directory of the log of this incarnation exists.
	Log bool `json:"log,omitempty"`
	// Start is the node's present one, and Starts has the latest ones of others; see mark. RolledBack is set if one of
	// those says that this directory is an older copy.
	Start      wire.Start         `json:"start"`
	Starts     map[kv.NodeID]mark `json:"starts,omitempty"`
	RolledBack bool               `json:"rolled_back,omitempty"`
	// Hosted has the groups that have a replica here.
	Hosted []kv.GroupID `json:"hosted"`
	// Map is the newest map that was stored here. Its addresses help to find the other nodes.
	Map *Map `json:"map"`
}

// identityFormat reaches the disk. It changes if an older program would misread the file.
//
//	1  before it had starts: a program that drops them makes others refuse the node
//	2  now
const identityFormat = 2

func identityFile(dir string) string { return filepath.Join(dir, "node.json") }

// readIdentity returns nil if the directory has none.
func readIdentity(fsys vfs.FS, dir string) (*identity, error) {
	text, err := files.Read(fsys, identityFile(dir), 64<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	id, err := parseIdentity(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", identityFile(dir), err)
	}
	return id, nil
}

func parseIdentity(text []byte) (*identity, error) {
	var id identity
	if err := json.Unmarshal(text, &id); err != nil {
		return nil, err
	}
	switch {
	case id.Format < 1 || id.Format > identityFormat:
		return nil, fmt.Errorf("its format is %d, and formats up to %d are supported: upgrade this node", id.Format, identityFormat)
	case !id.ID.Valid() || id.Cluster == "" || id.Incarnation == 0 || id.Map == nil:
		return nil, errors.New("the node's ID, cluster, incarnation or map is missing")
	}
	return &id, id.Map.check()
}

// write makes the identity durable: a new file replaces the old one.
func (id *identity) write(fsys vfs.FS, dir string) error {
	id.Format = identityFormat
	text, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return err
	}
	_, err = files.Replace(fsys, identityFile(dir), identityFile(dir)+".new", append(text, '\n'))
	return err
}
