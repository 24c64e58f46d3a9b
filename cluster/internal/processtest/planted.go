package processtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sievedb/sievedb/vfs"
)

// planted takes the mends of two faults out of package node:
//
//   - A leader of group 0 plans on its own copy of the map, without asking anyone whether it still leads, and its plans
//     are carried out.
//   - A node without a directory creates a cluster, and stays in it.
//
// Each change is a place, which must be there once, and what stands there instead.
var planted = []struct{ file, place, instead string }{
	{"mandate.go", "	_, m, term, err := n.readMap(ctx)\n", `	h, err := n.hostedGroup(0)
	if err != nil {
		return mandate{}, nil, n.notLeader(0)
	}
	n.refreshMap()
	m, term := n.atlas.chart(), h.log.Term()
`},
	{"mandate.go", "	if m.Term < n.atlas.group(0).Term", "	if n != nil {\n		return nil\n	}\n	if m.Term < n.atlas.group(0).Term"},
	{"controller.go", "		if len(plan(s)) == 0 {\n", "		n.carryOut(ctx, s, plan(s))\n		if n != nil {\n"},
	{"create.go", "	return fmt.Errorf(\"%w: %s is empty", "	if o != nil {\n		return Create(*o)\n	}\n	return fmt.Errorf(\"%w: %s is empty"},
	{"create.go", "id != nil && id.Alone {", "id != nil && id.Alone && n == nil {"},
	{"rollback.go", "case !s.Follows(known.Start):", "case !s.Follows(known.Start) && n == nil:"},
}

const plantedPackage = "github.com/sievedb/sievedb/cluster/internal/node"

// overlay writes the changed files and returns the name of the compiler's list of them, so that the checkout does not
// change.
func overlay() (name string, err error) {
	dir, err := builds()
	if err != nil {
		return "", err
	}
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", plantedPackage).Output()
	if err != nil {
		return "", fmt.Errorf("find %s: %w", plantedPackage, err)
	}
	texts, replaced := map[string]string{}, map[string]string{}
	for _, p := range planted {
		path := filepath.Join(strings.TrimSpace(string(out)), p.file)
		if texts[path] == "" {
			b, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			texts[path], replaced[path] = string(b), filepath.Join(dir, p.file)
		}
		if n := strings.Count(texts[path], p.place); n != 1 {
			return "", fmt.Errorf("%s has %d places with %q, not one", p.file, n, p.place)
		}
		texts[path] = strings.Replace(texts[path], p.place, p.instead, 1)
	}
	for path, text := range texts {
		if err := write(replaced[path], []byte(text)); err != nil {
			return "", err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	name = filepath.Join(dir, "planted.json")
	return name, write(name, list)
}

func buildPlanted() (string, error) {
	changed, err := overlay()
	if err != nil {
		return "", err
	}
	return build("planted", "-overlay", changed)
}

func write(name string, content []byte) error {
	f, err := vfs.OS.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
