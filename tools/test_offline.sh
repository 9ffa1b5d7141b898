#!/usr/bin/env bash
# Test on a machine without network: its own PyTorch, everything that it lacks from a folder of wheels.
#
#   tools/test_offline.sh WHEELS [PYTEST ARGUMENT ...]
#
# Installs the wheels and this checkout beside the machine's packages (in $AOTI_PLUGINS_SITE, a temporary folder by default),
# runs the tests, and prints a short summary last. Needs pip, a C++ compiler and cmake there, and ninja unless a wheel of
# aoti_plugins is among the wheels, which is then installed instead of the checkout. tools/collect_wheels.sh gets the others.
set -euo pipefail
wheels=$(realpath "$1")
shift
cd "$(dirname "$0")/.."
site=${AOTI_PLUGINS_SITE:-$(mktemp -d)}
export PYTHONPATH="$site${PYTHONPATH:+:$PYTHONPATH}"
python=${PYTHON:-python3}

"$python" -m pip install --quiet --no-index --no-deps --no-compile --upgrade --target "$site" "$wheels"/*.whl
compgen -G "$wheels/aoti_plugins-*.whl" >/dev/null ||
  "$python" -m pip install --quiet --no-index --no-deps --no-build-isolation --upgrade --target "$site" .
"$python" - <<'PYTHON'
import platform, torch, executorch.version
print(f"python {platform.python_version()}, torch {torch.__version__}, executorch {executorch.version.__version__}")
PYTHON
# The installed package is under test, here and in processes that tests start, not the sources beside the tests.
PYTHONSAFEPATH=1 "$python" -m pytest -p no:cacheprovider "${@:--q}"
