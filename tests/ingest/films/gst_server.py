"""GStreamer's RTSP server (LGPL) in a process of its own, under the system's Python: films that it
encodes with OpenH264 (BSD) while they are watched.

In: a JSON object on standard input: `user` and `password` (empty: none is asked for), `gop` (pictures
from keyframe to keyframe), `bits` a second, `codec`. Out: `port N` when it listens; it ends with its
standard input. Not imported by tests: `rtsp_servers` starts it.
"""

from __future__ import annotations

import json
import sys
import threading

import gi  # type: ignore[import-not-found]

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # type: ignore[import-not-found]  # noqa: E402

wanted = json.loads(sys.stdin.readline())
Gst.init(None)
server = GstRtspServer.RTSPServer()
server.set_address("127.0.0.1")
server.set_service("0")
for path, pattern in (("/film", "ball"), ("/other", "smpte")):
    media = GstRtspServer.RTSPMediaFactory()
    media.set_launch(
        f"( videotestsrc is-live=true pattern={pattern} ! video/x-raw,width=640,height=360,framerate=25/1"
        f" ! openh264enc gop-size={wanted['gop']} bitrate={wanted['bits']} rate-control=bitrate"
        " ! h264parse config-interval=-1 ! rtph264pay name=pay0 pt=96 )"
        if wanted["codec"] == "h264"
        else f"( videotestsrc is-live=true pattern={pattern} ! video/x-raw,width=320,height=240"
        " ! vp8enc deadline=1 ! rtpvp8pay name=pay0 pt=97 )"
    )
    media.set_shared(True)
    if wanted["password"]:
        media.add_role_from_structure(
            Gst.Structure.new_from_string(
                "watcher, media.factory.access=(boolean)true, media.factory.construct=(boolean)true"
            )
        )
    server.get_mount_points().add_factory(path, media)
if wanted["password"]:
    access = GstRtspServer.RTSPAuth()
    access.set_supported_methods(GstRtspServer.RTSPAuth and 2)  # digest
    token = GstRtspServer.RTSPToken()
    token.set_string("media.factory.role", "watcher")
    access.add_digest(wanted["user"], wanted["password"], token)
    server.set_auth(access)
server.attach(None)
print(f"port {server.get_bound_port()}", flush=True)
loop = GLib.MainLoop()
threading.Thread(target=lambda: (sys.stdin.read(), loop.quit()), daemon=True).start()
loop.run()
