#!/bin/sh
# Puts what the tests of the explorer's page need where they look for it: a Chromium on the PATH, and
# axe-core's script in FOLDER.
#   browser.sh FOLDER
set -eu
folder=$1

again() { "$@" || { sleep 5; "$@"; } || { sleep 20; "$@"; }; }

# With apt-get only as root: nobody is asked for a password.
install_with_apt() {
  if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
    echo "make test-ui needs $1 on the PATH; on Debian: sudo apt-get install $1. All else is tested by make test." >&2
    exit 1
  fi
  again apt-get update -qq
  DEBIAN_FRONTEND=noninteractive again apt-get install -y -qq --no-install-recommends "$1" > /dev/null
}

found=
for name in chromium chromium-browser google-chrome "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"; do
  if command -v "$name" > /dev/null; then found=$name; break; fi
done
[ -n "$found" ] || install_with_apt chromium
if [ ! -s "$folder/axe.min.js" ]; then
  command -v npm > /dev/null || install_with_apt npm
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  again npm pack --silent --pack-destination "$work" axe-core@4 > /dev/null
  tar -xzf "$work"/axe-core-*.tgz -C "$work" package/axe.min.js
  mv "$work/package/axe.min.js" "$folder/axe.min.js"
fi
