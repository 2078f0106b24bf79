// Package keys has the commands of keys of every type: deadlines, walks, SORT, DUMP, OBJECT, whole databases.
package keys
