//go:build image

package importers

import "errors"

// readBadger is left out of the image: the library and its dependencies would be a quarter of it.
func readBadger(*Source, func(*Item) error) error {
	return errors.New("the command of the image reads no files of badger; one that is built without the tag image does")
}
