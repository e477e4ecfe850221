"""A camera's own push, as its maker's public documents show it and as it came from one."""

from __future__ import annotations

ALERT = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<EventNotificationAlert version="2.0"'
    b' xmlns="http://www.hikvision.com/ver20/XMLSchema">\n<ipAddress>192.0.2.11</ipAddress>'
    b"<eventType>ANPR</eventType><ANPR><licensePlate>TEST01</licensePlate></ANPR>"
    b"</EventNotificationAlert>"
)
CAMERA_FORM_TYPE = "multipart/form-data; boundary=boundary"
CAMERA_FORM = (
    b'--boundary\r\nContent-Disposition: form-data; name="anpr.xml"; filename="anpr.xml"\r\n'
    b"Content-Type: text/xml\r\nContent-Length: %d\r\n\r\n%b\r\n"
    b'--boundary\r\nContent-Disposition: form-data; name="licensePlatePicture.jpg";'
    b' filename="licensePlatePicture.jpg"\r\nContent-Type: image/jpeg\r\nContent-Length: 8\r\n\r\n'
    b"\xff\xd8\xff\xe0abcd\r\n--boundary--\r\n"
) % (len(ALERT), ALERT)
