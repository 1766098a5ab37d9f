# The documentation that is crawled: NAME PACKAGE PATH below /usr/share/doc. Sourced after lib.sh.
# shellcheck shell=bash disable=SC2154
docs=(
  "a python3.11-doc python3.11/html"
  "b postgresql-doc-15 postgresql-doc-15/html"
  "c sqlite3-doc sqlite3"
  "d python-django-doc python-django-doc/html"
  "e git-doc git-doc"
  "f cmake-doc cmake-data/html"
  "g python-sqlalchemy-doc python-sqlalchemy-doc/html"
  "h libstdc++-12-doc gcc-12-base/libstdc++"
)

# serve_all_docs N [NAME=DIR]...: the first N trees as a, b, ... and one host `all` whose first page links to each of them, and more if given.
serve_all_docs() {
  local n=$1 entry name package path tree
  shift
  local entries=("$@")
  mkdir -p "$work/all"
  echo '<!DOCTYPE html><title>All documentation</title>' >"$work/all/index.html"
  for entry in "${docs[@]:0:$n}"; do
    read -r name package path <<<"$entry"
    tree=$(doc_tree "$package" "$path")
    entries+=("$name=$tree")
    ln -s "$tree" "$work/all/$name"
    echo "<a href=\"$name/index.html\">$package</a>" >>"$work/all/index.html"
  done
  serve_docs all="$work/all" "${entries[@]}"
}

# sites N: the first pages of the first N trees' hosts.
sites() {
  local entry
  for entry in "${docs[@]:0:$1}"; do site "${entry%% *}"; echo; done
}
